"""A block device with a volatile write cache, and the power cut that empties it.

A process serves one file over /dev/fuse, and a loop device makes it a drive.  A write stays in the
cache until the kernel flushes the drive; at the cut each page that is still there is on the drive,
is not, or has some of its sectors.  Device-mapper could drop writes too; it has no cache to lose.
"""
import ctypes
import errno
import os
import random
import select
import socket
import stat
import struct
import subprocess

PAGE, SECTOR = 4096, 512
LIBC = ctypes.CDLL(None, use_errno=True)
FORGET, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, INIT, INTERRUPT, \
    DESTROY, BATCH_FORGET = 2, 3, 4, 14, 15, 16, 17, 18, 20, 25, 26, 36, 38, 42


class Cache:
    """What the drive has, and over it what was written since it was flushed."""

    def __init__(self, content, flushes):
        self.content, self.flushes = bytearray(content), flushes
        self.pages = {}

    def page(self, index):
        return self.pages.get(index) or self.content[index * PAGE:(index + 1) * PAGE]

    def read(self, offset, size):
        size = max(0, min(size, len(self.content) - offset))
        if not size:
            return b""
        first, last = offset // PAGE, (offset + size - 1) // PAGE
        joined = b"".join(bytes(self.page(i)) for i in range(first, last + 1))
        return joined[offset - first * PAGE:][:size]

    def write(self, offset, data):
        while data:
            index, at = divmod(offset, PAGE)
            part = data[:PAGE - at]
            page = bytearray(self.page(index))
            page[at:at + len(part)] = part
            self.pages[index] = page
            offset, data = offset + len(part), data[len(part):]

    def flush(self):
        if not self.flushes:
            return
        for index, page in self.pages.items():
            self.content[index * PAGE:(index + 1) * PAGE] = page
        self.pages = {}

    def cut(self, rng):
        for index, page in self.pages.items():
            fate = rng.randrange(3)
            for at in range(0, PAGE, SECTOR):
                if fate == 0 or (fate == 1 and rng.randrange(2)):
                    begin = index * PAGE + at
                    self.content[begin:begin + SECTOR] = page[at:at + SECTOR]
        return bytes(self.content)


def attributes(size):
    return struct.pack("<QII6Q10I", 0, 0, 0, 1, size, size // 512, 0, 0, 0, 0, 0, 0,
                       stat.S_IFREG | 0o600, 1, 0, 0, 0, PAGE, 0)


def answer(cache, opcode, body):
    """The reply's bytes; a number: an error; None: none is wanted."""
    if opcode == INIT:
        return struct.pack("<4I2H2I2H8I", 7, 31, 1 << 17, 1 | 1 << 5 | 1 << 22, 16, 12, 1 << 17, 1,
                           32, 0, *[0] * 8)
    if opcode in (GETATTR, SETATTR):
        return attributes(len(cache.content))
    if opcode == OPEN:
        return struct.pack("<QII", 1, 0, 0)
    if opcode == READ:
        _, offset, size = struct.unpack_from("<QQI", body)
        return cache.read(offset, size)
    if opcode == WRITE:
        _, offset, size = struct.unpack_from("<QQI", body)
        cache.write(offset, body[40:40 + size])
        return struct.pack("<II", size, 0)
    if opcode == FSYNC:
        cache.flush()
        return b""
    if opcode == STATFS:
        return struct.pack("<5Q4I6I", 0, 0, 0, 0, 0, PAGE, 255, PAGE, 0, *[0] * 6)
    if opcode in (RELEASE, FLUSH, DESTROY):
        return b""
    return None if opcode in (FORGET, INTERRUPT, BATCH_FORGET) else errno.ENOSYS


def serve(fuse, control, cache):
    """Until the cut is asked for: its seed and where the drive's content goes."""
    lost = False
    while True:
        for ready in select.select([fuse, control], [], [])[0]:
            if ready == control:
                words = os.read(control, 4096).decode().split(" ", 1)
                if len(words) < 2:
                    return
                with open(words[1], "wb") as out:
                    out.write(cache.cut(random.Random(int(words[0]))))
                lost = True
                os.write(control, b"cut")
                continue
            try:
                request = os.read(fuse, 1 << 18)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN):
                    continue
                return  # no longer mounted
            _, opcode, unique = struct.unpack_from("<IIQ", request)
            reply = answer(cache, opcode, request[40:])
            if lost and opcode in (READ, WRITE, FSYNC):
                reply = errno.EIO
            if reply is None:
                continue
            code, data = (0, reply) if isinstance(reply, bytes) else (-reply, b"")
            try:
                os.write(fuse, struct.pack("<IiQ", 16 + len(data), code, unique) + data)
            except OSError as error:
                if error.errno != errno.ENOENT:  # the caller is gone
                    return


def call(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def mount(source, target, kind, options):
    if LIBC.mount(source.encode(), target.encode(), kind.encode(), 0, options.encode()):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


class Drive:
    """Mounted at FOLDER/mounted from `content`: with a file system, or None, which makes one."""

    def __init__(self, folder, content, flushes=True, size=96 << 20):
        self.file, self.mounted = os.path.join(folder, "file"), os.path.join(folder, "mounted")
        self.loop = None
        open(self.file, "a", encoding="utf-8").close()
        os.makedirs(self.mounted, exist_ok=True)
        self.fuse = os.open("/dev/fuse", os.O_RDWR)
        self.control, theirs = (end.detach() for end in socket.socketpair())
        self.child = os.fork()
        if not self.child:
            os.close(self.control)
            serve(self.fuse, theirs, Cache(content or bytes(size), flushes))
            os._exit(0)
        os.close(theirs)
        mount("memwall", self.file, "fuse",
              f"fd={self.fuse},rootmode={stat.S_IFREG:o},user_id=0,group_id=0,allow_other")
        try:
            self.loop = call("losetup", "--find", "--show", self.file)
            if not content:
                call("mkfs.ext4", "-q", "-F", "-E", "nodiscard", self.loop)
            mount(self.loop, self.mounted, "ext4", "")
        except BaseException:
            self.take_down()
            raise

    def cut(self, seed, path):
        """What the drive has when the power comes back, in a file.  All later transfers fail."""
        os.write(self.control, f"{seed} {path}".encode())
        assert os.read(self.control, 16) == b"cut"

    def take_down(self):
        subprocess.run(["umount", "-l", self.mounted], check=False, capture_output=True)
        if self.loop:
            subprocess.run(["losetup", "-d", self.loop], check=False, capture_output=True)
        subprocess.run(["umount", "-l", self.file], check=False, capture_output=True)
        os.close(self.control)
        os.close(self.fuse)
        os.waitpid(self.child, 0)


def why_not():
    """Why such a drive cannot be made here; or None."""
    if os.geteuid():
        return "a drive that can lose its cache takes root"
    for path in ("/dev/fuse", "/dev/loop-control"):
        if not os.path.exists(path):
            return f"{path} is not here: no drive that can lose its cache"
    if subprocess.run(["which", "mkfs.ext4", "losetup"], check=False,
                      capture_output=True).returncode:
        return "mkfs.ext4 or losetup is missing"
    return None
