package given_test

import (
	"testing"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/given"
)

type Settings struct{ Size int }

func TestOptions(t *testing.T) {
	for _, tc := range []struct {
		all  []Settings
		want Settings
	}{
		{nil, Settings{}},
		{[]Settings{{Size: 3}}, Settings{Size: 3}},
	} {
		if got, err := given.Options("a", "the call", tc.all); got != tc.want || err != nil {
			t.Errorf("of %v: %v, %v; want %v", tc.all, got, err, tc.want)
		}
		if got := given.Must("a", "New", tc.all); got != tc.want {
			t.Errorf("of %v: %v; want %v", tc.all, got, tc.want)
		}
	}
}

func TestMoreThanOne(t *testing.T) {
	const want = "a: New has 2 Settings; merge them into one"
	_, err := given.Options("a", "New", make([]Settings, 2))
	if e, ok := errors.AsType[*errors.Error](err); !ok || e.Code != errors.Internal || e.Message != want {
		t.Errorf("got %v, want INTERNAL: %s", err, want)
	}
	defer func() {
		if got := recover(); got != want {
			t.Errorf("panicked with %v, want %q", got, want)
		}
	}()
	given.Must("a", "New", make([]Settings, 2))
}
