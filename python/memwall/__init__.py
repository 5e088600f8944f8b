"""memwall: how a model trains on a machine whose memory it does not fit into.

    >>> import memwall
    >>> answer = memwall.simulate(model="llama-3.1-8b", hardware="rtx4090", seq=2048)
    >>> answer.feasible, answer.strategy, round(answer.tokens_per_s)
    >>> answer.need_bytes.gpu, [(lane.name, lane.busy_s) for lane in answer.lanes]
    >>> print(answer.text)

Settings are those of the command without their dashes, with _ for - ("param_device"); keys of the
hardware profile stand in a dict: keys={"host.memory_gib": 256}.  docs/library.md of memwall names
them all, and the figures of an answer.
"""
import ctypes
import itertools
import json as _json

from memwall._library import LISTENER, library

__all__ = ["Answer", "Error", "compare", "largest", "names", "plan", "simulate", "version"]

CODES = {1: "invalid", 2: "format", 3: "io", 4: "device", 5: "large"}
PLAN, SIMULATE, WHAT_IF, STEP, LARGEST = range(5)


class Error(ValueError):
    """Says why there is no answer: `code` is one of CODES' words, `setting` what is wrong, or None."""

    def __init__(self, message, code, setting):
        super().__init__(message)
        self.code, self.setting = code, setting


class Figures(dict):
    """An object of the answer: its members are attributes too."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no figure {name}") from None

    def __dir__(self):
        return [*super().__dir__(), *self]


class Answer(Figures):
    """The best plan: figures as the command's JSON has them (docs/schema.json, "result").

    `text` is for people, `plan_text` the plan that the command simulates and runs, or None where
    it does not fit, and `json` the whole answer as the command prints it.  `warnings` lists what to
    know before trusting it.
    """

    def __init__(self, json, text, plan_text, warnings):
        super().__init__(_json.loads(json, object_hook=Figures)["answers"][0])
        self.__dict__.update(json=json, text=text, plan_text=plan_text, warnings=warnings)

    def __repr__(self):
        return f"<memwall.Answer: {self['plan']}{'' if self['feasible'] else ', does not fit'}>"

    def _repr_pretty_(self, printer, cycle):
        printer.text(self.text)


def _raise(error):
    message = library.memwall_error_message(error).decode()
    setting = library.memwall_error_setting(error)
    code = CODES.get(library.memwall_error_code(error), "io")
    library.memwall_error_free(error)
    raise Error(message, code, setting.decode() if setting else None)


def _word(value):
    """A value as a person types it: on and off for what is switched."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _set(question, name, value):
    error = ctypes.c_void_p()
    if not library.memwall_question_set(question, name.encode(), _word(value).encode(),
                                        ctypes.byref(error)):
        _raise(error)


def _text(read, answer):
    text = read(answer)
    return text.decode() if text is not None else None


def _warnings(answer):
    texts = (library.memwall_answer_warning(answer, index) for index in itertools.count())
    return [text.decode() for text in itertools.takewhile(bool, texts)]


def _answer(answer):
    return Answer(_text(library.memwall_answer_json, answer),
                  _text(library.memwall_answer_text, answer),
                  _text(library.memwall_answer_plan, answer), _warnings(answer))


def _rows(name):
    """Reads a list of the answer's JSON."""
    return lambda answer: _json.loads(library.memwall_answer_json(answer),
                                      object_hook=Figures)[name]


def _ask(depth, settings, keys, progress, read=_answer):
    if isinstance(settings.get("strategy"), (list, tuple, set)):
        raise TypeError("strategy: one name; several are compared by "
                        "memwall.compare(model, hardware, strategies=[...])")
    question = library.memwall_question_new()
    error = ctypes.c_void_p()
    listener = LISTENER(
        lambda _, doing, simulated: progress(doing.decode(), simulated) and None
        if progress else None)
    try:
        for name, value in settings.items():
            if value is not None:
                _set(question, name.replace("_", "-"), value)
        for name, value in (keys or {}).items():
            _set(question, name, str(value).lower() if isinstance(value, bool) else value)
        if progress:
            library.memwall_question_listen(question, listener, None)
        answer = library.memwall_ask(question, depth, ctypes.byref(error))
    finally:
        library.memwall_question_free(question)
    if not answer:
        _raise(error)
    try:
        return read(answer)
    finally:
        library.memwall_answer_free(answer)


def simulate(model=None, hardware=None, *, keys=None, what_if=False, progress=None, **settings):
    """The best plan and how fast it is.  `hardware`: a profile or parts, such as
    "4xrtx4090,ram=256"; without it this machine, once it was calibrated.

    progress(doing, simulated) is called while it computes.  "Does not fit" is an answer:
    its `feasible` is False, and `remedy` says what would make it fit.  Instead of a model,
    plan="FILE" names a plan that was written before.
    """
    return _ask(WHAT_IF if what_if else SIMULATE,
                {"model": model, "hardware": hardware, **settings}, keys, progress)


def plan(model, hardware=None, *, keys=None, progress=None, **settings):
    """What would be where, and whether it fits; no times."""
    return _ask(PLAN, {"model": model, "hardware": hardware, **settings}, keys, progress)


def compare(model, hardware=None, *, strategies, keys=None, progress=None, **settings):
    """Figures of several strategies, in a list; one that would take too long is left out."""
    return _ask(SIMULATE, {"model": model, "hardware": hardware, "strategy": ",".join(strategies),
                           **settings}, keys, progress, _rows("answers"))


def largest(model, hardware=None, *, keys=None, progress=None, **settings):
    """The most layers of the model that fit, for each strategy: figures in a list."""
    return _ask(LARGEST, {"model": model, "hardware": hardware, **settings}, keys, progress,
                _rows("largest"))


def names(what):
    """Names of "models", "hardware", "software", "strategies", "settings" or "keys"."""
    found = library.memwall_names(what.encode())
    if not found:
        raise ValueError(f"{what}: must be models, hardware, software, strategies, settings or keys")
    try:
        count = next(i for i in range(1 << 20) if not found[i])
        return [found[i].decode() for i in range(count)]
    finally:
        library.memwall_names_free(found)


def version():
    """Of the library."""
    return library.memwall_version().decode()
