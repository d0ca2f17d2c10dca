package load

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"strings"
)

// offer is what the clients of Target.Deflate offer, as browsers do.
const offer = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n"

// longText makes a request and its reply JSON of a little more than 1 KiB, with as much repetition as lists of an
// application have.
var longText = func() string {
	var b strings.Builder
	states := []string{"delivered", "in transit", "returned", "waiting for payment"}
	for i := 0; b.Len() < 1000; i++ {
		fmt.Fprintf(&b, "order %d of customer %d: %d items, %d.%02d EUR, %s; ", 104200+i*7, 31*i*i+77, i%5+1, 13*i+9, 37*i%100, states[i*i%len(states)])
	}
	return b.String()[:1000]
}()

// deflate compresses a message as permessage-deflate does, by itself.
func deflate(payload []byte) []byte {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.DefaultCompression)
	if err == nil {
		_, err = w.Write(payload)
	}
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		panic(err) // the level is a constant, and memory does not fail
	}
	return b.Bytes()[:b.Len()-4]
}

func inflate(payload []byte) ([]byte, error) {
	tail := strings.NewReader("\x00\x00\xff\xff\x01\x00\x00\xff\xff")
	return io.ReadAll(flate.NewReader(io.MultiReader(bytes.NewReader(payload), tail)))
}
