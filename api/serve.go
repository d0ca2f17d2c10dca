package api

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/problem"
	"github.com/wskit/wskit/router"
)

// handler serves the calls of a router. types has the Go types of the calls, and serves no connection.
type handler struct {
	o       Options
	r       *router.Router
	types   *router.Router
	calls   map[string]*call
	limits  map[string]Limit
	openapi []byte
	busy    chan struct{} // holds a token for each request that is handled
}

// answer is that of a request or of a call in a batch: one of the two.
type answer struct {
	Result jsontext.Value   `json:"result,omitzero"`
	Error  *problem.Problem `json:"error,omitzero"`

	retryable bool // the same call may succeed later
}

var (
	errBusy     = errors.Unavailable.New("too many requests at once").WithRetryAfter(time.Second)
	errMethod   = errors.InvalidArgument.New("a call is a POST, and openapi.json is a GET")
	errMedia    = errors.InvalidArgument.New("send the parameters as application/json")
	errTooLarge = errors.InvalidArgument.Errorf("the request has more than %d bytes; send several", maxBody)
	errAnswer   = errors.ResourceExhausted.New("the results of the batch are too large; make these calls in another one")
	errBody     = errors.InvalidArgument.New("the request was not received")
)

func (h *handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	select {
	case h.busy <- struct{}{}:
		defer func() { <-h.busy }()
	default:
		fail(errBusy, 0).write(w)
		return
	}
	grant, err := h.o.Authorize(req)
	if err == nil {
		err = grant.check()
	}
	if err != nil {
		level := slog.LevelDebug // requests without a secret do not fill the log
		if errors.CodeOf(err) == errors.Internal {
			level = slog.LevelError
		}
		h.o.Logger.Log(req.Context(), level, "api: a request is not authorized", "error", err)
		fail(err, 0).write(w)
		return
	}
	h.serve(w, req, grant).write(w)
}

// serve answers a request of a known sender.
func (h *handler) serve(w http.ResponseWriter, req *http.Request, grant Grant) answer {
	name := path.Base(req.URL.Path)
	mediaType, _, _ := strings.Cut(req.Header.Get("Content-Type"), ";")
	switch {
	case name == "openapi.json" && req.Method == http.MethodGet:
		return answer{Result: h.openapi}
	case name != "batch" && h.calls[name] == nil:
		return fail(unknownCall(name), 0)
	case req.Method != http.MethodPost:
		return fail(errMethod, http.StatusMethodNotAllowed)
	case strings.TrimSpace(mediaType) != "application/json": // a form of another site could send the cookies
		return fail(errMedia, http.StatusUnsupportedMediaType)
	}
	// A sender that is slow does not keep the place of another.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.o.Timeout)) // else the server has a timeout
	body, err := io.ReadAll(http.MaxBytesReader(nil, req.Body, maxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fail(errTooLarge, http.StatusRequestEntityTooLarge)
	}
	if err != nil {
		return fail(errBody, 0)
	}
	// A sender that goes away does not stop half of what it has asked for.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(req.Context()), h.o.Timeout)
	defer cancel()
	run := func() answer {
		if name == "batch" {
			return h.batch(ctx, grant, body)
		}
		return h.run(ctx, grant, h.decode(name, body))
	}
	key := req.Header.Get("Idempotency-Key")
	if key == "" {
		return run()
	}
	return h.once(ctx, grant.Name, key, name, body, run)
}

func unknownCall(name string) error {
	return errors.NotFound.Errorf("there is no call %q; GET openapi.json lists them", name)
}

// decoded is a call that was decoded, or the error of that.
type decoded struct {
	call   *call
	params any
	about  Call
	err    error
}

func (h *handler) decode(name string, params []byte) (d decoded) {
	d = decoded{call: h.calls[name], about: Call{Name: name}}
	if d.call == nil {
		d.err = unknownCall(name)
		return d
	}
	if len(params) == 0 {
		params = []byte("{}")
	}
	if d.params, d.err = h.types.DecodeEvent(name, params); d.err == nil {
		d.about = d.call.about(d.params)
	}
	return d
}

// run makes one call.
func (h *handler) run(ctx context.Context, grant Grant, d decoded) answer {
	begun := time.Now()
	encoded, err := h.try(ctx, grant, d)
	h.log(ctx, grant.Name, d.about, begun, err)
	if err != nil {
		return fail(err, 0)
	}
	return answer{Result: encoded}
}

func (h *handler) try(ctx context.Context, grant Grant, d decoded) (encoded []byte, err error) {
	if d.err != nil {
		return nil, d.err
	}
	if err := grant.allows(ctx, d.about); err != nil {
		return nil, err
	}
	result, err := d.call.run(ctx, h, d.params)
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

// log writes a line for a call. The text of an error without a code is here, and not in the answer.
func (h *handler) log(ctx context.Context, sender string, c Call, begun time.Time, err error) {
	level, code := slog.LevelInfo, errors.Code("OK")
	if err != nil {
		code = errors.CodeOf(err)
	}
	if code == errors.Internal {
		level = slog.LevelError
	}
	if !h.o.Logger.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("sender", sender), slog.String("call", cut(c.Name)),
		slog.String("tenant", c.Tenant), slog.String("user", c.User), slog.String("ip", c.IP), slog.String("conn", c.Connection),
		slog.Any("topics", c.Topics), slog.String("event", c.Event),
		slog.Any("code", code), slog.Duration("took", time.Since(begun)),
	}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	h.o.Logger.LogAttrs(ctx, level, "api: call", attrs...)
}

func cut(s string) string { return s[:min(len(s), maxName)] }

// fail is the answer for an error; status 0 is that of its code.
func fail(err error, status int) answer {
	e := errors.From(err)
	p := problem.Of(e)
	if e.Details != nil {
		p.Details, _ = json.Marshal(e.Details) // else they are left out
	}
	switch {
	case status != 0:
		p.Status = status
	case e.Code == errors.Aborted || e.Code == errors.AlreadyExists || e.Code == errors.FailedPrecondition:
		p.Status = http.StatusConflict
	case e.Code == errors.Unimplemented:
		p.Status = http.StatusNotImplemented
	}
	return answer{Error: &p, retryable: e.Retryable()}
}

func (a answer) write(w http.ResponseWriter) {
	if a.Error != nil {
		a.Error.Write(w)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(append(a.Result, '\n')) // else the sender is gone
}

// Batches

// batched is a call of a batch.
type batched struct {
	Call   string         `json:"call" validate:"required,max=32"`
	Params jsontext.Value `json:"params,omitzero"`
}

type batchParams struct {
	Calls []batched `json:"calls" validate:"min=1,max=1000,dive"`
}

type batchResult struct {
	Results []answer `json:"results"`
}

// batch makes several calls in their order. Neighbours that publish or send are made at the same time, so that a broker
// gets them together, but for those of one topic or target.
func (h *handler) batch(ctx context.Context, grant Grant, body []byte) answer {
	params, err := h.types.DecodeEvent("batch", body)
	if err != nil {
		h.log(ctx, grant.Name, Call{Name: "batch"}, time.Now(), err)
		return fail(err, 0)
	}
	calls := params.(batchParams).Calls
	results := make([]answer, len(calls))
	size := 0
	sends := func(i int) bool { return calls[i].Call == "publish" || calls[i].Call == "send" }
	for i := 0; i < len(calls); {
		neighbours := i + 1
		for sends(i) && neighbours < len(calls) && sends(neighbours) {
			neighbours++
		}
		if size > maxAnswer {
			results[i] = fail(errAnswer, 0)
			i++
			continue
		}
		h.together(ctx, grant, calls[i:neighbours], results[i:neighbours])
		for ; i < neighbours; i++ {
			size += len(results[i].Result)
		}
	}
	encoded, err := json.Marshal(batchResult{results})
	if err != nil {
		return fail(err, 0)
	}
	return answer{Result: encoded}
}

// together makes calls at the same time, those of one topic or target one after the other.
func (h *handler) together(ctx context.Context, grant Grant, calls []batched, results []answer) {
	all := make([]decoded, len(calls))
	receivers := make(map[string][]int)
	for i, b := range calls {
		all[i] = h.decode(b.Call, b.Params)
		r := all[i].about.receiver()
		receivers[r] = append(receivers[r], i)
	}
	run := func(indexes []int) {
		for _, i := range indexes {
			results[i] = h.run(ctx, grant, all[i])
		}
	}
	var done sync.WaitGroup
	for _, indexes := range receivers {
		if len(receivers) == 1 {
			run(indexes)
			continue
		}
		done.Go(func() { run(indexes) })
	}
	done.Wait()
}

// receiver names what a call sends to.
func (c Call) receiver() string {
	if c.Topics != nil {
		return "topic " + c.Topics[0]
	}
	return "target " + c.Tenant + "\x00" + c.User + "\x00" + c.Connection
}
