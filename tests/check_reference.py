#!/usr/bin/python3
"""What `memwall --reference` prints; prints TAP.

page         docs/reference.md is what the command prints: MW_UPDATE_GOLDEN=1 writes it anew.
complete     the man pages and the scripts of all shells have every option that help has.
variables    every environment variable that the source reads is in the page, and each of the page
             is read: but a launcher's.
man          groff renders all man pages without a warning, and mandoc finds nothing to lint.
profile      the page of profiles has every key, with what it may be.
bash, fish, zsh
             the shell itself completes verbs, options and values.
refused      another form, another list: exit 2 and a line.
What needs groff, mandoc, or a shell that is not installed, is skipped.

The command is $MEMWALL, or build/cli/memwall.
"""
import os
import re
import select
import shutil
import subprocess
import sys
import time

from command import MEMWALL, ROOT, Box
from tap import Skip, report_in

PAGE = ROOT / "docs/reference.md"
VERBS = ["list", "plan", "simulate", "sweep", "advise", "report", "run", "compare", "check",
         "calibrate", "export", "rm", "verify"]
# What launchers set for the ranks that they start.
LAUNCHERS = re.compile(r"OMPI_|PMIX_|PMI_|SLURM_")


def made(box, form):
    answer = box.run(f"--reference {form}")
    assert answer.status == 0 and not answer.err, answer.err
    return answer.out.decode()


def check_page(box):
    text = made(box, "markdown")
    if os.environ.get("MW_UPDATE_GOLDEN"):
        PAGE.write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        yield "docs/reference.md is not what the command prints: MW_UPDATE_GOLDEN=1 writes it anew"
    for line in text.splitlines():
        if len(line) > (160 if line.startswith("memwall ") else 100):  # a synopsis is one line
            yield f"{len(line)} columns: {line}"


# --- nothing is missing ---------------------------------------------------------------------------

def options_of(box, verb):
    """Long names, as help has them."""
    return re.findall(r"^  (?:-\w, )?--([a-z0-9-]+)", box.run(f"help {verb}").out.decode(),
                      re.MULTILINE)


def check_complete(box):
    page = made(box, "markdown")
    zsh, fish = made(box, "zsh"), made(box, "fish")
    for verb in VERBS:
        options, man = options_of(box, verb), made(box, f"man {verb}")
        if "help" not in options:
            yield f"{verb}: options {options}"
        function = zsh.split(f"\n    {verb})\n")[1].split(";;")[0]
        for option in options:
            if f"\\fB--{option}\\fR".replace("-", "\\-") not in man:
                yield f"{verb} --{option} is not in its man page"
            if not re.search(rf"^- (`-\w`, )?`--{option}\b", page, re.MULTILINE):
                yield f"{verb} --{option} is not in the page"
            if not re.search(rf"--{option}[=\[}}]", function):
                yield f"{verb} --{option} is not in zsh's script"
            if not re.search(rf"_from [a-z ]*\b{verb}\b[^;]*'.* -l {option} ", fish):
                yield f"{verb} --{option} is not in fish's script"
        others = man.split("SEE ALSO")[1].replace("\\-", "-")
        named = re.findall(r"memwall-(\w+)\(1\)", others)
        if not named or not set(named) <= set(VERBS) - {verb}:
            yield f"{verb}: see also {named}"
    if len(box.run("help check").out.splitlines()) > 90:
        yield "help check is long"
    man = made(box, "man")
    for name in VERBS:
        if f"memwall\\-{name}(1)" not in man:
            yield f"{name} is not in the man page"


def variables_read():
    """Named at the call, by a macro, or in the table of home directories."""
    names = set()
    for folder in ("base", "calibrate", "cli", "exec", "hardware", "model", "report"):
        for path in (ROOT / folder).rglob("*.[ch]"):
            text = path.read_text(encoding="utf-8")
            for named in (r'getenv\("(\w+)"\)', r'define MW_\w+_VARIABLE "(\w+)"', r'"(XDG_\w+)"'):
                names |= set(re.findall(named, text))
    return {name for name in names if not LAUNCHERS.match(name)}


def check_variables(box):
    section = made(box, "markdown").split("\n## Environment\n")[1].split("\n## ")[0]
    told = set(re.findall(r"^- `(\w+)`", section, re.MULTILINE))
    read = variables_read() | {"HOME"}  # by g_get_home_dir
    if "MEMWALL_NVME" not in read or "XDG_STATE_HOME" not in read:
        yield f"found in the source: {sorted(read)}"
    yield from (f"{name} is read and not told" for name in sorted(read - told))
    yield from (f"{name} is told and not read" for name in sorted(told - read))


# --- programs that read it ------------------------------------------------------------------------

MAN_PAGES = {
    "man": ("SYNOPSIS", "memwall-simulate(1)", "MEMWALL_NVME", "EXIT STATUS",
            "~/.config/memwall/hwprofiles/NAME.ini"),
    "man verify": ("memwall-verify", "memwall verify gpt2-2026-11-22-1", "EXIT STATUS"),
    "man plan": ("--activation-checkpoint-interval", "SEE ALSO"),
    "man profile": ("MEMWALL-PROFILE(5)", "[gpu]", "low; typical; high", "inherits = rtx4090"),
}


def check_rendered(box, page, words):
    done = subprocess.run(["groff", "-man", "-Tutf8", "-Kutf8", "-ww", "-rLL=80n", "-P-cbou"],
                          input=made(box, page).encode(), capture_output=True, check=False)
    if done.returncode or done.stderr:
        yield f"{page}: status {done.returncode}: {done.stderr.decode()}"
    text = done.stdout.decode()
    yield from (f"{page}: {word} is not in the page" for word in words if word not in text)


def check_linted(box, page):
    """A page has no date: it is as old as its version."""
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning"], input=made(box, page).encode(),
                          capture_output=True, check=False)
    yield from (f"{page}: {line}" for line in done.stdout.decode().splitlines()
                if "missing date" not in line)


def check_man(box):
    if not shutil.which("groff"):
        yield Skip("no groff")
        return
    for page in {**dict.fromkeys((f"man {verb}" for verb in VERBS), ()), **MAN_PAGES}:
        yield from check_rendered(box, page, MAN_PAGES.get(page, ()))
        if shutil.which("mandoc"):
            yield from check_linted(box, page)


def check_profile(box):
    """As a profile that is printed has them, and as a value is refused."""
    page = made(box, "man profile").replace("\\-", "-")
    for line in ("list hwprofiles dgx-h100", "list software deepspeed"):
        for key in re.findall(r"^(\w+) = ", box.run(line).out.decode(), re.MULTILINE):
            if f"\\fB{key}\\fR\n" not in page and not key.endswith(("_low", "_high")):
                yield f"{key} of {line} is not in the page"
    refused = box.run("simulate -m tiny -H rtx4090 --set gpu.memory_gib=x").err
    accepted = re.search(r"must be (.*)", refused)[1].replace("a number", "A number")
    if accepted not in page or "A number from" not in accepted:
        yield f"gpu.memory_gib: {accepted} is not in the page"


# What is typed, what is offered, and whether nothing else may be.
TYPED = (
    ("memwall pl", ["plan"], True),
    ("memwall simulate --det", ["--details"], True),
    ("memwall plan --details", [], True),  # is simulate's alone
    ("memwall plan --batch ", ["auto"], True),
    ("memwall plan --dtype ", ["bf16", "fp16", "fp32"], True),
    ("memwall plan --dtype=f", ["fp16", "fp32"], True),
    ("memwall run --backend c", ["cpu", "cuda"], True),
    ("memwall calibrate --backend n", [], True),
    ("memwall list ", ["models", "types", "hwprofiles", "software", "strategies", "optimizers",
                       "schedules", "data-parallel", "gates", "encodings", "devices",
                       "runs"], True),
    ("memwall list models gpt2", ["gpt2", "gpt2-xl"], False),
    ("memwall plan -m llama-3.1-", ["llama-3.1-8b"], False),
    ("memwall simulate -H flat", ["flat-test"], True),
    ("memwall plan --set gpu.memory_gib", ["gpu.memory_gib="], True),
    ("memwall simulate --set software.offers.dr", ["software.offers.drives="], True),
    ("memwall plan -s zero-inf", ["zero-infinity-cpu", "zero-infinity-nvme"], True),
    ("memwall simulate some-", ["some-file", "some-folder/"], True),
    ("memwall run --save some-", ["some-folder/"], True),
    ("memwall verify own-", ["own-run"], True),
    ("memwall export --for ", ["deepspeed", "accelerate", "fsdp2", "torchtitan", "megatron",
                               "memwall", "slurm"], True),
    ("memwall export --pick fa", ["fastest"], True),
)
BASH = r"""
source "$1"
line=$2
read -ra COMP_WORDS <<<"${line//=/ = }"
[[ $line == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_memwall
printf '%s\n' "${COMPREPLY[@]}"
"""


def shell_environment(box):
    """With the command under its name, a file, a folder and a run."""
    (box.folder / "bin").mkdir(exist_ok=True)
    link = box.folder / "bin/memwall"
    if not link.exists():
        link.symlink_to(MEMWALL)
    box.write("some-file", "")
    (box.folder / "some-folder").mkdir(exist_ok=True)
    return dict(box.environment, PATH=f"{link.parent}:{box.environment['PATH']}")


def ask(box, command):
    done = subprocess.run(command, cwd=box.folder, env=shell_environment(box), check=False,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def check_offers(typed, wanted, alone, offered, folder):
    """Behind a folder's name bash has no / here, which readline adds."""
    offered = {name.rstrip("/") + "/" if (folder / name).is_dir() else name
               for name in offered if name}
    if not set(wanted) <= offered or (alone and offered != set(wanted)):
        yield f"{typed!r}: {sorted(offered)}, expected {wanted}"


def own_run(box):
    """In the list of this user's."""
    box.write("tokens.txt", "The quick brown fox jumps over the lazy dog. " * 40)
    answer = box.run("run -m tiny -H flat-test --data tokens.txt --seq 16 --batch 1 --steps 1 "
                     "--save-every 1 --device-threads 1 --host-threads 1")
    assert answer.status == 0, answer.err
    runs = box.run("--names runs").out.decode().split()
    assert len(runs) == 1, runs
    return runs[0]


def typed_of(run):
    """Its name is made of model and day."""
    for typed, wanted, alone in TYPED:
        if typed.endswith("own-"):
            typed, wanted = typed.replace("own-", run[:4]), [run]
        yield typed, wanted, alone


def check_bash(box, run):
    if not shutil.which("bash"):
        yield Skip("no bash")
        return
    script = box.folder / "script.bash"
    script.write_text(made(box, "bash"), encoding="utf-8")
    for typed, wanted, alone in typed_of(run):
        status, out, err = ask(box, ["bash", "--norc", "-c", BASH, "bash", str(script), typed])
        if status or err:
            yield f"{typed!r}: status {status}: {err}"
        yield from check_offers(typed, wanted, alone, out.splitlines(), box.folder)


def check_bash_several(box):
    """Behind a comma another strategy."""
    script = box.folder / "script.bash"
    _, out, _ = ask(box, ["bash", "--norc", "-c", BASH, "bash", str(script),
                          "memwall simulate -s ddp,zero1"])
    if out.split() != ["ddp,zero1"]:
        yield f"{out!r}"


def check_fish(box, run):
    if not shutil.which("fish"):
        yield Skip("no fish")
        return
    script = box.folder / "script.fish"
    script.write_text(made(box, "fish"), encoding="utf-8")
    status, _, err = ask(box, ["fish", "--no-execute", str(script)])
    if status or err:
        yield f"status {status}: {err}"
    for typed, wanted, alone in typed_of(run):
        _, out, _ = ask(box, ["fish", "--no-config", "-c",
                              f"source {script}; complete -C '{typed}'"])
        offered = [line.split("\t")[0] for line in out.splitlines()]
        offered = [name.split("=")[1] if name.startswith("--") and "=" in name else name
                   for name in offered]
        yield from check_offers(typed, wanted, alone, offered, box.folder)


# What is typed before a tab, and what the line is then.
ZSH_TYPED = (
    ("memwall calib", "memwall calibrate "),
    ("memwall simulate --det", "memwall simulate --details "),
    ("memwall plan --details", "memwall plan --details"),  # is simulate's alone
    ("memwall plan --dtype=b", "memwall plan --dtype=bf16 "),
    ("memwall plan --dty", "memwall plan --dtype="),
    ("memwall list hwpr", "memwall list hwprofiles "),
    ("memwall list models gpt2-x", "memwall list models gpt2-xl "),
    ("memwall plan -H flat", "memwall plan -H flat-test "),
    ("memwall plan -m llama-3.1-8", "memwall plan -m llama-3.1-8b "),
    ("memwall plan -s ddp,zero1", "memwall plan -s ddp,zero1 "),
    ("memwall plan --set gpu.memory_gi", "memwall plan --set gpu.memory_gib="),
    ("memwall simulate some-fi", "memwall simulate some-file "),
)
ZSH = """PS1=; fpath=($PWD $fpath); autoload -U compinit; compinit -D -u
show() { print -r -- "$BUFFER" >shown.new; mv shown.new shown }; zle -N show
bindkey '^Xs' show; bindkey '^U' kill-whole-line; : >shown
"""


def wait_for(path, master):
    """What comes to stand in the file, which is gone then.  The terminal's output is read away."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if select.select([master], [], [], 0.01)[0]:
            os.read(master, 65536)
        if path.exists():
            text = path.read_text(encoding="utf-8").rstrip("\n")
            path.unlink()
            return text
    return None


def check_zsh(box):
    if not shutil.which("zsh"):
        yield Skip("no zsh")
        return
    script = box.folder / "_memwall"
    script.write_text(made(box, "zsh"), encoding="utf-8")
    status, _, err = ask(box, ["zsh", "-n", str(script)])
    if status or err:
        yield f"status {status}: {err}"
    try:
        master, terminal = os.openpty()
    except OSError as error:
        yield Skip(f"no terminal: {error.strerror}")
        return
    shown = box.folder / "shown"
    environment = dict(shell_environment(box), TERM="vt100")
    with subprocess.Popen(["zsh", "-f", "-i"], cwd=box.folder, env=environment, stdin=terminal,
                          stdout=terminal, stderr=terminal, start_new_session=True) as shell:
        os.write(master, ZSH.encode())
        wait_for(shown, master)
        for typed, wanted in ZSH_TYPED:
            os.write(master, f"\x15{typed}\t\x18s".encode())
            line = wait_for(shown, master)
            if line != wanted:
                yield f"{typed!r} becomes {line!r}, expected {wanted!r}"
        shell.kill()
    os.close(master)
    os.close(terminal)


def check_refused(box):
    for line, said in (("--reference html", "man, markdown, bash, zsh and fish"),
                       ("--reference", "man, markdown"), ("--names cities", "models, hwprofiles"),
                       ("--reference man cities", "a verb or"),
                       ("--names models models", "models, hwprofiles")):
        answer = box.run(line)
        if answer.status != 2 or answer.out or answer.err.count("\n") != 1 or \
                said not in answer.err:
            yield f"{line}: status {answer.status}: {answer.err}"


def tests(box):
    yield "page", check_page(box)
    yield "complete", check_complete(box)
    yield "variables", check_variables(box)
    yield "man", check_man(box)
    yield "profile", check_profile(box)
    run = own_run(box)
    yield "bash", check_bash(box, run)
    yield "bash: several", check_bash_several(box)
    yield "fish", check_fish(box, run)
    yield "zsh", check_zsh(box)
    yield "refused", check_refused(box)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
