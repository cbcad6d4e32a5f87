"""Connections that do not wait for ever for a request to come."""

from uvicorn.protocols.http.h11_impl import H11Protocol


def make_protocol(seconds: float) -> type[H11Protocol]:
    """Uvicorn's protocol, which closes connections whose next request has not
    begun to arrive, all of its header, within so many seconds."""

    class Protocol(H11Protocol):
        timer = None

        def connection_made(self, transport):
            super().connection_made(transport)
            self.start_timer()

        def on_response_complete(self):
            super().on_response_complete()
            self.start_timer()

        def connection_lost(self, exc):
            self.timer.cancel()
            super().connection_lost(exc)

        def start_timer(self):
            if self.timer is not None:
                self.timer.cancel()
            self.timer = self.loop.call_later(seconds, self.close_if_silent)

        def close_if_silent(self):
            if self.cycle is None or self.cycle.response_complete:
                self.transport.close()

    return Protocol
