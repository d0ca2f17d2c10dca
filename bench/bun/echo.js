// A rival of the benchmarks: uWebSockets, as Bun has it built in, with the work of a request written by hand. It
// decodes the request, checks its two fields and answers; there is no router and no limiter.
const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch(request, server) {
    if (!server.upgrade(request)) return new Response("not a WebSocket handshake", { status: 400 });
  },
  websocket: {
    // uWebSockets collects the answers to what one read has brought, and writes them at once.
    message(ws, frame) {
      let request;
      try {
        request = JSON.parse(frame);
      } catch {
        ws.close(1003, "not JSON");
        return;
      }
      const { type, meta, payload } = request;
      if (type !== "chat.echo" || !payload || typeof payload.room !== "string" || payload.room === "" ||
          typeof payload.text !== "string" || payload.text === "") {
        ws.close(1003, "room and text are required");
        return;
      }
      ws.send(JSON.stringify({
        type: "chat.echoed",
        meta: { correlationId: meta?.correlationId },
        payload: { room: payload.room, text: payload.text },
      }));
    },
  },
});
console.log(`listening on 127.0.0.1:${server.port}`);
