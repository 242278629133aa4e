"""Ends TLS in front of a broker, as a proxy does, with OpenSSL.

Run it as: terminator.py PORT BROKER-PORT KEYSTORE KEYLOG CIPHERS. For each connection it writes a
line: the client's address, and the address that the broker sees.
"""

import asyncio
import ssl
import sys

HOST = "127.0.0.1"


async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Carry bytes until one end has no more."""
    try:
        while content := await source.read(65536):
            sink.write(content)
            await sink.drain()
    except ConnectionError:
        pass
    finally:
        sink.close()


async def serve(port: int, broker_port: int, context: ssl.SSLContext) -> None:
    """Take connections until the process is ended."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inside = await asyncio.open_connection(HOST, broker_port)
        names = (writer.get_extra_info("peername"), inside[1].get_extra_info("sockname"))
        print(*(f"{host}:{number}" for host, number in names), flush=True)
        await asyncio.gather(copy(reader, inside[1]), copy(inside[0], writer))

    async with await asyncio.start_server(connected, HOST, port, ssl=context) as server:
        print("listening", flush=True)
        await server.serve_forever()


def main(port: str, broker_port: str, keystore: str, keylog: str, ciphers: str) -> None:
    """Serve TLS 1.2 with these ciphers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(ciphers)
    context.load_cert_chain(keystore)
    context.keylog_filename = keylog
    asyncio.run(serve(int(port), int(broker_port), context))


if __name__ == "__main__":
    main(*sys.argv[1:])
