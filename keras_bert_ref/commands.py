"""What all commands share: flags and help, logs, how they start.

A command is two modules of its task: one defines the flags and is quick to
import, the other does the work. TensorFlow is imported only once the flags
are known to be right, and always after this package, which sets how it starts.
"""

import contextlib
import importlib
import itertools
import logging as std_logging
import os
import re
import signal
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from absl import app, flags, logging

from keras_bert_ref import config, lock
from keras_bert_ref import flags as shared_flags
from keras_bert_ref.guard import (
    end_at_once,
    ended_by_ctrl_c,
    guard,
    hold,
    hold_sigterm,
)

FLAGS = flags.FLAGS
BOOLEANS = {"true", "false", "yes", "no", "on", "off", "t", "f", "0", "1"}
HELP_WORDS = {"--help", "-help", "-h", "--helpshort", "-helpshort"}
# What TensorFlow writes while it starts, before its log levels count. The
# failed call to cuInit only says that there is no GPU.
START_UP_NOISE = re.compile(
    r"WARNING: All log messages before absl::InitializeLog"
    r"|To enable the following instructions:"
    # TensorFlow 2.21 begins its lines one way, 2.19 another.
    r"|([IW]\d{4} |\d{4}-\d\d-\d\d \S+: [IW] )"
    r"|(E\d{4} |\d{4}-\d\d-\d\d \S+: E )"
    r".*(failed call to cuInit|Unable to register cu\w+ factory)"
)


class Options:
    """The values of a command's flags, as attributes.

    They cannot be set. Whoever needs others, such as a trial with a learning
    rate of its own, makes a copy with `replace`.
    """

    def __init__(self, values: Mapping[str, Any]):
        vars(self).update(values)

    def __setattr__(self, name: str, value) -> None:
        raise AttributeError(f"--{name} is set already; use replace().")

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def replace(self, **changes) -> "Options":
        unknown = changes.keys() - vars(self).keys()
        if unknown:
            raise AttributeError(f"There is no --{', --'.join(unknown)}.")
        return Options({**vars(self), **changes})


def read_options() -> Options:
    """This command's flags as they were parsed."""
    names = itertools.chain.from_iterable(shared_flags.GROUPS.values())
    return Options({name: FLAGS[name].value for name in names})


def run(
    description: str,
    define: Callable[[], None],
    body: str,
    check: Callable[[Options], None] = lambda options: None,
    takes_words: bool = False,
) -> None:
    """Runs a command.

    Args:
        description: what it does, for --help.
        define: defines its flags.
        body: the module that does the work: its `main(options, words)` gets
            the flags and whatever words follow them.
        check: raises ValueError where flags do not fit together.
        takes_words: bool. Whether words that belong to no flag mean anything.
    """
    define()
    if HELP_WORDS & set(sys.argv[1:]):
        show(help_text(program_name(), description))
        sys.exit()
    FLAGS.set_gnu_getopt(True)
    app.run(
        lambda argv: guard(lambda: _main(argv, body, check, takes_words)),
        flags_parser=_parse,
    )


def show(text: str) -> None:
    """Prints what may be longer than one wants to read."""
    try:
        print(text, flush=True)
    except BrokenPipeError:  # `--help | head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parse(argv: list[str]) -> list[str]:
    try:
        return FLAGS(_find_flagfiles(argv))
    except (flags.Error, OSError) as error:
        message = str(error).removeprefix("ERROR:: ")
        sys.exit(f"Error: {message}\n--help lists all flags.")


def _find_flagfiles(argv: list[str]) -> list[str]:
    """Puts the paths of flagfiles of ours in place of their names."""
    found = []
    for word in argv:
        prefix = re.match(r"--?flagfile=", word)
        if prefix:
            word = prefix[0] + config.find_run(word[prefix.end() :])
        elif found and found[-1] in ("--flagfile", "-flagfile"):
            word = config.find_run(word)
        found.append(word)
    return found


def _main(
    argv: list[str], body: str, check: Callable, takes_words: bool
) -> None:
    set_up_logging()
    _, *words = argv
    check_words(words, takes_words)
    options = read_options()
    check(options)
    # Nothing is begun yet, and TensorFlow may lose an exception while it
    # starts.
    quiet = quiet_start(is_verbose=options.verbosity > 0)
    with ended_by_ctrl_c(end_at_once), hold_sigterm(), quiet:
        main = importlib.import_module(body).main
    with lock.hold_for(options):
        main(options, words)


def check_words(words: Sequence[str], takes_words: bool) -> None:
    """Raises if a word belongs to no flag, and to nothing else."""
    stray = [w for w in words if not takes_words or w.lower() in BOOLEANS]
    if stray:
        raise ValueError(
            f"The word {stray[0]!r} belongs to no flag; drop it, or write it "
            "with its flag. Booleans are written --do_train, --nodo_train or "
            "--do_train=false, lists with commas and without spaces."
        )


def set_up_logging() -> None:
    """Logs sentences for people, from INFO on.

    --log_prefix puts time, process and place in front of each, --verbosity
    chooses what is logged.
    """
    if not FLAGS["verbosity"].present:
        logging.set_verbosity(logging.INFO)
    if FLAGS.verbosity <= 0:  # what it has to say of replicas and workers
        std_logging.getLogger("tensorflow").setLevel(std_logging.WARNING)
    warnings.showwarning = _show_warning
    logging.use_absl_handler()
    handler = logging.get_absl_handler()
    handler.python_handler.stream = _Stream()
    if not FLAGS.log_prefix:
        handler.setFormatter(_Formatter())


def _show_warning(message, category, filename, *_) -> None:
    """Warnings of Python, without file and line."""
    logging.warning("%s", message)


class _Formatter(logging.PythonFormatter):
    """Plain sentences; what is not just information says so."""

    def format(self, record) -> str:
        message = record.getMessage()
        if record.exc_info:
            message += "\n" + self.formatException(record.exc_info)
        if record.levelname in ("INFO", "DEBUG"):
            return message
        return f"{record.levelname.capitalize()}: {message}"


class _Stream:
    """Standard error, with progress bars kept below what is logged."""

    def write(self, text: str) -> None:
        from tqdm import tqdm

        tqdm.write(text, file=sys.stderr, end="")

    def flush(self) -> None:
        sys.stderr.flush()

    def close(self) -> None:
        """Standard error stays open."""


@contextlib.contextmanager
def quiet_start(is_verbose: bool = False) -> Iterator[None]:
    """TensorFlow, if the block imports it, starts without its messages;
    errors stay.

    A process of its own filters what is written to standard error. It lives
    on if this one dies, so that last words come through.
    """
    if is_verbose or not hasattr(os, "fork"):
        yield
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.stderr.flush()
    stderr = os.dup(2)
    reader, writer = os.pipe()
    # Ctrl-C reaches the whole group; the filter's last words come after it.
    with hold(signal.SIGINT):
        child = os.fork()
        if not child:
            os.close(writer)
            _pass_on(reader, stderr)
    os.close(reader)
    os.dup2(writer, 2)
    os.close(writer)
    try:
        yield
        if tensorflow := sys.modules.get("tensorflow"):
            # Looks for GPUs, and says so.
            tensorflow.config.list_physical_devices()
    finally:
        sys.stderr.flush()
        os.dup2(stderr, 2)
        os.close(stderr)
        os.waitpid(child, 0)


def _pass_on(reader: int, stderr: int) -> NoReturn:
    """Passes lines on, but for noise, until there are no more; then ends this
    process, whatever happens: the rest of the program is not its own."""
    try:
        rest = b""
        while data := os.read(reader, 1 << 16):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if not START_UP_NOISE.match(line.decode(errors="replace")):
                    os.write(stderr, line + b"\n")
        os.write(stderr, rest)
    finally:
        os._exit(0)


def program_name() -> str:
    """What a user typed to start this command."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is None:
        return os.path.basename(sys.argv[0])
    return f"python -m {spec.name.removesuffix('.__main__')}"


def help_text(program: str, description: str) -> str:
    """All flags of a command, in groups."""
    lines = [description.strip(), "", f"Usage: {program} [flags]"]
    for title, names in shared_flags.GROUPS.items():
        lines += ["", f"{title}:"]
        for name in names:
            lines += _describe(FLAGS[name])
    lines += ["", "Flags can also be read from a file: --flagfile=FILE."]
    return "\n".join(lines)


def _describe(flag) -> list[str]:
    is_bool = flag.flag_type() == "bool"
    name = f"--[no]{flag.name}" if is_bool else f"--{flag.name}"
    text = shared_flags.HELP.get(flag.name, flag.help)
    if any("must have a value" in v.message for v in flag.validators):
        text += " (required)"
    elif is_bool and flag.default is not None:
        text += f" (default: {'on' if flag.default else 'off'})"
    elif flag.default not in (None, [], "") and flag.name != "verbosity":
        default = flag.default_as_str.strip("'")
        text += f" (default: {default})"
    return [f"  {name}", *(f"      {x}" for x in textwrap.wrap(text, 72))]
