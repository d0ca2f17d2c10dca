package codec

import (
	"bytes"
	"reflect"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/wskit/wskit/internal/flat"
)

// PayloadKey comes before a payload, which is not the first member of a frame.
var PayloadKey = []byte(`,"payload":`)

// AppendPayload appends the key and the encoded value, of any type.
func AppendPayload(out *bytes.Buffer, v any) error {
	if appendFlat(out, flatOf(reflect.TypeOf(v)), reflect.ValueOf(v)) {
		return nil
	}
	out.Write(PayloadKey)
	return json.MarshalWrite(out, v)
}

// appendFlat appends the key and a struct, unless s is nil or package json has to encode it.
func appendFlat(out *bytes.Buffer, s *flat.Struct, v reflect.Value) bool {
	if s == nil {
		return false
	}
	b, ok := s.Append(append(out.AvailableBuffer(), PayloadKey...), v)
	if ok {
		out.Write(b)
	}
	return ok
}

// flats holds the types of payloads that were sent, and a *flat.Struct for each, nil if it is none. A program has
// few of these types.
var flats sync.Map

func flatOf(t reflect.Type) *flat.Struct {
	if t == nil {
		return nil
	}
	s, ok := flats.Load(t)
	if !ok {
		s, _ = flats.LoadOrStore(t, flat.Of(t))
	}
	return s.(*flat.Struct)
}
