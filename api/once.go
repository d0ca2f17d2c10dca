package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/idempotency"
)

var (
	errNoStore = errors.Unimplemented.New("this server keeps no answers; set Options.Idempotency of api.Handler, " +
		"or leave the key out")
	errKey      = errors.InvalidArgument.Errorf("Idempotency-Key has more than %d bytes", maxName)
	errRunning  = errors.Aborted.New("a request with this key is handled now").WithRetryAfter(time.Second)
	errMismatch = errors.FailedPrecondition.New("this Idempotency-Key was used with another request")
	errManyKeys = errors.ResourceExhausted.New("too many keys are kept for this sender; they are forgotten with time")
	errForgot   = errors.FailedPrecondition.New("the request was handled before; its answer was not kept")
)

// once runs a request, unless one with this key has run: then its answer is that of the first.
func (h *handler) once(ctx context.Context, sender, key, name string, body []byte, run func() answer) answer {
	switch {
	case h.o.Idempotency == nil:
		return fail(errNoStore, 0)
	case len(key) > maxName:
		return fail(errKey, 0)
	}
	claim := idempotency.Claim{
		Subject: "api:" + digest(sender), Key: digest(key), Digest: digest(name, string(body)), Execution: rand.Text(),
	}
	// The claim outlasts the request, which ends with its timeout, and the time in which the answer is kept.
	state, kept, err := h.o.Idempotency.Begin(ctx, claim, h.o.Timeout+finishTimeout)
	switch {
	case errors.Is(err, idempotency.ErrFull):
		return fail(errManyKeys, 0)
	case err != nil:
		return fail(errors.Unavailable.Wrap(err, "it is not known whether the request was handled before"), 0)
	case state == idempotency.Running:
		return fail(errRunning, 0)
	case state == idempotency.Mismatch:
		return fail(errMismatch, http.StatusUnprocessableEntity)
	case state == idempotency.Answered:
		var a answer
		if json.Unmarshal(kept, &a) != nil || a.Result == nil && a.Error == nil {
			return fail(errForgot, 0)
		}
		return a
	}
	a := run()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	if a.retryable {
		err = h.o.Idempotency.Release(ctx, claim)
	} else if kept, err = json.Marshal(a); err == nil {
		err = h.o.Idempotency.Finish(ctx, claim, kept, h.o.Keep)
		if errors.Is(err, idempotency.ErrFull) { // at least that it was handled
			err = h.o.Idempotency.Finish(ctx, claim, []byte{'0'}, h.o.Keep)
		}
	}
	if err != nil {
		h.o.Logger.Error("api: the answer of a request was not kept; one with the same key may be handled again",
			"sender", sender, "call", name, "error", err)
	}
	return a
}

// finishTimeout is how long an answer may take to be kept.
const finishTimeout = 5 * time.Second

func digest(parts ...string) string {
	sum := sha256.New()
	for _, p := range parts {
		one := sha256.Sum256([]byte(p))
		sum.Write(one[:])
	}
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}
