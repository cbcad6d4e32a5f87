"""Runs a command and kills it, as kill -9 would, in the middle of its work on
files: python dying.py MOMENT NUMBER SCRIPT_OR_-m [MODULE] [FLAGS].

MOMENT is `before` or `after` a file gets its final name, or `within` the
write of a checkpoint's data; NUMBER says at which time of that kind.
"""

import os
import runpy
import signal
import sys
import threading
import time

import keras_bert_ref  # noqa: F401  # first: it sets how TensorFlow starts

import tensorflow as tf  # isort: skip


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_renames(moment: str, number: int) -> None:
    """Files get their names from the system or, some, from TensorFlow."""
    calls = []

    def wrap(rename):
        def rename_and_die(*args, **kwargs):
            calls.append(args)
            is_due = len(calls) == number
            if is_due and moment == "before":
                die()
            rename(*args, **kwargs)
            if is_due:
                die()

        return rename_and_die

    os.replace = wrap(os.replace)
    tf.io.gfile.rename = wrap(tf.io.gfile.rename)


def wrap_save(number: int):
    save, calls = tf.raw_ops.SaveV2, []

    def watch(prefix: str) -> None:
        folder, name = os.path.split(prefix)
        while not any(
            other.startswith(f"{name}.") for other in os.listdir(folder)
        ):
            time.sleep(1e-5)
        die()

    def save_and_die(prefix, **kwargs):
        calls.append(prefix)
        if len(calls) == number:
            path = prefix if isinstance(prefix, str) else prefix.numpy()
            threading.Thread(target=watch, args=(os.fsdecode(path),)).start()
        return save(prefix=prefix, **kwargs)

    return save_and_die


def main(moment: str, number: str, *words: str) -> None:
    if moment == "within":
        tf.raw_ops.SaveV2 = wrap_save(int(number))
    else:
        die_at_renames(moment, int(number))
    if words[0] == "-m":
        sys.argv = list(words[1:])
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(words)
        sys.path.insert(0, os.path.dirname(words[0]))
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
