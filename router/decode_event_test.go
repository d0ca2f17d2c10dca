package router_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/router"
)

// sealed can be encoded, and not be decoded.
type sealed struct{ Done func() }

func (sealed) MarshalJSON() ([]byte, error) { return []byte(`{}`), nil }

type rude struct{}

func (*rude) UnmarshalJSON([]byte) error { panic("rude") }

func TestDecodeEvent(t *testing.T) {
	type price struct {
		Item  string `json:"item" validate:"required,max=10"`
		Cents int    `json:"cents" validate:"min=1"`
	}
	r := router.New()
	router.Declare[price](r, "price")
	router.Declare[struct{}](r, "nothing")
	router.Declare[sealed](r, "sealed")
	router.Declare[*rude](r, "rude")
	router.DeclareQuestion[price, bool](r, "confirm")
	router.On(r, "sent", func(*router.Context, price) error { return nil })
	for _, c := range []struct {
		typ, payload string
		want         any
		code         errors.Code
		field        string
	}{
		{"price", `{"item":"tea","cents":250}`, price{"tea", 250}, "", ""},
		{"price", `{"item":"tea","cents":0}`, nil, errors.InvalidArgument, "cents"},
		{"price", `{"item":"tea","cents":"1"}`, nil, errors.InvalidArgument, "cents"},
		{"price", `{"item":"tea","cent":1}`, nil, errors.InvalidArgument, "cent"},
		{"price", `{"item":"tea`, nil, errors.InvalidArgument, ""},
		{"price", ``, nil, errors.InvalidArgument, ""},
		{"nothing", ``, struct{}{}, "", ""},
		{"sealed", `{}`, nil, errors.Internal, ""},
		{"rude", `{}`, nil, errors.Internal, ""},
		{"confirm", `{"item":"tea","cents":250}`, nil, errors.NotFound, ""},
		{"sent", `{"item":"tea","cents":250}`, nil, errors.NotFound, ""},
		{"other", `{}`, nil, errors.NotFound, ""},
	} {
		got, err := r.DecodeEvent(c.typ, []byte(c.payload))
		if errors.CodeOf(err) != c.code || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s %s: %v, %v", c.typ, c.payload, got, err)
		}
		if c.field == "" {
			continue
		}
		details, _ := json.Marshal(errors.From(err).Details)
		var found struct {
			Fields []router.FieldError `json:"fields"`
		}
		if json.Unmarshal(details, &found) != nil || len(found.Fields) != 1 || found.Fields[0].Path != c.field {
			t.Errorf("%s %s: the details are %s", c.typ, c.payload, details)
		}
	}
}
