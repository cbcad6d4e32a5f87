"""Being asked to end."""

import os
import signal

from keras_bert_ref import interruption


def test_sigterm_is_heard_and_handed_back():
    before = signal.getsignal(signal.SIGTERM)
    with interruption.watch_for_sigterm() as received:
        assert not received
        os.kill(os.getpid(), signal.SIGTERM)
        assert received == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) == before
