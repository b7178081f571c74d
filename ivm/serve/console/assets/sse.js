// Reads a stream of server-sent events by fetch, which unlike EventSource can log in.

/**
 * Yields the events of a stream: {id, event, data}.
 * @param {Response} response
 */
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let begun = []; // pieces of a line that has not ended: it may be long, and come in many
  let event = blank();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = value.split("\n");
      const last = lines.pop();
      if (lines.length) {
        lines[0] = begun.join("") + lines[0];
        begun = [];
      }
      begun.push(last);
      for (const line of lines) {
        const text = line.endsWith("\r") ? line.slice(0, -1) : line;
        if (text !== "") take(event, text);
        else {
          if (event.data.length) yield { ...event, data: event.data.join("\n") };
          event = blank();
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // the connection may be gone already
  }
}

function blank() {
  return { id: null, event: "message", data: [] };
}

function take(event, line) {
  const [, name, value] = line.match(/^([^:]*):? ?(.*)$/s);
  if (name === "data") event.data.push(value);
  else if (name === "id") event.id = value;
  else if (name === "event") event.event = value;
}
