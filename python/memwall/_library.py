"""libmemwall.so.0 by ctypes: found where MEMWALL_LIBRARY says, or where the loader looks."""
import ctypes
import os

LISTENER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int)

_POINTER, _TEXT, _INT, _BOOL = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_bool
_SIZE = ctypes.c_size_t
_NAMES = ctypes.POINTER(ctypes.c_char_p)
_ERROR = ctypes.POINTER(ctypes.c_void_p)

# As memwall.h declares them: what is returned, then what is taken.
FUNCTIONS = {
    "memwall_version": (_TEXT,),
    "memwall_error_code": (_INT, _POINTER),
    "memwall_error_message": (_TEXT, _POINTER),
    "memwall_error_setting": (_TEXT, _POINTER),
    "memwall_error_free": (None, _POINTER),
    "memwall_question_new": (_POINTER,),
    "memwall_question_set": (_BOOL, _POINTER, _TEXT, _TEXT, _ERROR),
    "memwall_question_listen": (None, _POINTER, LISTENER, _POINTER),
    "memwall_question_free": (None, _POINTER),
    "memwall_ask": (_POINTER, _POINTER, _INT, _ERROR),
    "memwall_answer_json": (_TEXT, _POINTER),
    "memwall_answer_text": (_TEXT, _POINTER),
    "memwall_answer_plan": (_TEXT, _POINTER),
    "memwall_answer_warning": (_TEXT, _POINTER, _SIZE),
    "memwall_answer_free": (None, _POINTER),
    "memwall_names": (_NAMES, _TEXT),
    "memwall_names_free": (None, _NAMES),
}


def _open():
    name = os.environ.get("MEMWALL_LIBRARY", "libmemwall.so.0")
    try:
        found = ctypes.CDLL(name)
    except OSError as error:
        raise ImportError(f"{error}: memwall's library is installed by `meson install -C build` "
                          "and then `ldconfig`, or with the Debian package libmemwall0; "
                          "or MEMWALL_LIBRARY names its file") from error
    for name, (returned, *taken) in FUNCTIONS.items():
        function = getattr(found, name)
        function.restype, function.argtypes = returned, taken
    return found


class _Library:
    """Opens it when its first function is asked for: memwall.describe needs none."""

    def __getattr__(self, name):
        opened = _open()
        for each in FUNCTIONS:
            setattr(self, each, getattr(opened, each))
        return getattr(opened, name)


library = _Library()
