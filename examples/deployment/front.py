# SPDX-License-Identifier: Apache-2.0
"""A load balancer for TCP on loopback: front.py PORT BACKEND-PORT...

Each connection goes to the first backend that accepts it. Use HAProxy or the one of your cloud."""
import asyncio
import sys

port, backends = int(sys.argv[1]), [int(p) for p in sys.argv[2:]]


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.close()


async def serve(reader, writer):
    for backend in backends:
        try:
            there = await asyncio.open_connection("127.0.0.1", backend)
        except OSError:
            continue
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))
        return
    writer.close()


async def main():
    async with await asyncio.start_server(serve, "127.0.0.1", port) as server:
        await server.serve_forever()


asyncio.run(main())
