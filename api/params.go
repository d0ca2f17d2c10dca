package api

import (
	"net/netip"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/router"
)

// The parameters and the results of the calls.
type (
	publishParams struct {
		Topic string         `json:"topic" validate:"required,max=256"`
		Event string         `json:"event" validate:"required,max=128"`
		Data  jsontext.Value `json:"data,omitzero"`
		// ID makes it safe to publish again to a topic with history.
		ID string `json:"id,omitzero" validate:"max=128"`
		slowParams
	}
	sendParams struct {
		target
		Event string         `json:"event" validate:"required,max=128"`
		Data  jsontext.Value `json:"data,omitzero"`
		slowParams
	}
	askParams struct {
		target
		Question string         `json:"question" validate:"required,max=128"`
		Data     jsontext.Value `json:"data,omitzero"`
	}
	// slowParams say what happens to a message for a client that reads slowly.
	slowParams struct {
		Overflow string `json:"overflow,omitzero" validate:"omitempty,oneof=disconnect dropOldest dropNewest latestOnly"`
		Key      string `json:"key,omitzero" validate:"max=256"`
	}
	topicsParams struct {
		target
		Topics []string `json:"topics" validate:"min=1,max=1000,dive,required,max=256"`
	}
	closeParams struct {
		target
		Code   int    `json:"code,omitzero" validate:"omitempty,min=1000,max=4999"`
		Reason string `json:"reason,omitzero" validate:"max=120"`
	}
	revokeParams struct {
		Tenant string `json:"tenant,omitzero" validate:"max=256"`
		User   string `json:"user" validate:"required,max=256"`
		Topics string `json:"topics" validate:"required,max=256"`
	}
	redactParams struct {
		Topic       string         `json:"topic" validate:"required,max=256"`
		Position    string         `json:"position" validate:"required,max=256"`
		Replacement jsontext.Value `json:"replacement,omitzero"`
	}
	subjectParams struct {
		Tenant string `json:"tenant,omitzero" validate:"max=256"`
		User   string `json:"user,omitzero" validate:"max=256"`
		IP     string `json:"ip,omitzero" validate:"omitempty,ip"`
	}
	banParams struct {
		subjectParams
		Seconds int `json:"seconds" validate:"min=1,max=315360000"`
	}
	limitParams struct {
		subjectParams
		Limiter string `json:"limiter" validate:"required,max=128"`
		Type    string `json:"type,omitzero" validate:"max=128"`
	}
	topicParams struct {
		Topic string `json:"topic" validate:"required,max=256"`
	}
	historyParams struct {
		Topic     string `json:"topic" validate:"required,max=256"`
		From      string `json:"from,omitzero" validate:"max=256"`
		Backwards bool   `json:"backwards,omitzero"`
		Limit     int    `json:"limit,omitzero" validate:"min=0,max=1000"`
	}

	answered struct {
		Answer jsontext.Value `json:"answer"`
	}
	counted struct {
		Connections int `json:"connections"`
	}
	listed struct {
		Connections []router.ConnInfo `json:"connections"`
	}
	member struct {
		Connection string         `json:"connection"`
		User       string         `json:"user,omitzero"`
		Data       jsontext.Value `json:"data,omitzero"`
	}
	present struct {
		Members []member `json:"members"`
	}
	left struct {
		Limit      int64 `json:"limit"`
		Remaining  int64 `json:"remaining"`
		RetryMs    int64 `json:"retryAfterMs"`
		FullInMs   int64 `json:"fullInMs"`
		WouldAllow bool  `json:"allowed"`
	}
)

// options are those of what is sent.
func (p slowParams) options() router.PublishOptions {
	overflow := map[string]router.Overflow{
		"dropOldest": router.OverflowDropOldest, "dropNewest": router.OverflowDropNewest, "latestOnly": router.OverflowLatestOnly,
	}
	return router.PublishOptions{Overflow: overflow[p.Overflow], Key: p.Key} // the zero Overflow disconnects
}

// code is the code with which connections are closed.
func (p closeParams) code() (errors.CloseCode, error) {
	switch code := errors.CloseCode(p.Code); {
	case code == 0:
		return errors.ClosePolicy, nil
	case code.Valid():
		return code, nil
	}
	const wrong = "a server may not close with %d; use one from 4000 to 4999, or 1008"
	return 0, errors.InvalidArgument.Errorf(wrong, p.Code)
}

// data is the payload of an event, as its declaration has it.
func (h *handler) data(event string, data jsontext.Value) (any, error) {
	if strings.HasPrefix(event, "$ws:") {
		return nil, errors.InvalidArgument.Errorf("the event %q is one of the protocol", event)
	}
	value, err := h.r.DecodeEvent(event, data)
	if !h.o.Undeclared || errors.CodeOf(err) != errors.NotFound {
		return value, err
	}
	if data == nil {
		return nil, nil
	}
	return data, nil
}

// subject is a user or an address as middleware sees it.
func (p subjectParams) subject() (*ingress.Context, error) {
	c := &ingress.Context{Identity: ingress.Identity{Tenant: p.Tenant, User: p.User}}
	switch {
	case p.User == "" && p.IP == "":
		return nil, errors.InvalidArgument.New("name a user or an ip")
	case p.IP != "":
		ip, err := netip.ParseAddr(p.IP)
		if err != nil {
			return nil, errors.InvalidArgument.New("ip is not an address")
		}
		c.IP = ip
	}
	return c, nil
}

func (h *handler) banned(p subjectParams) (*ingress.Context, error) {
	if h.o.Bans == nil {
		return nil, errors.Unimplemented.New("this server has no bans; set Options.Bans of its api.Handler")
	}
	return p.subject()
}

func (h *handler) limit(p limitParams) (*limit.Limiter, limit.Key, error) {
	l, ok := h.limits[p.Limiter]
	if !ok {
		const unknown = "there is no limiter %q; set it in Options.Limits of api.Handler"
		return nil, limit.Key{}, errors.NotFound.Errorf(unknown, p.Limiter)
	}
	c, err := p.subject()
	if err != nil {
		return nil, limit.Key{}, err
	}
	c.Type = p.Type
	return l.Limiter, l.Key(l.Limiter.Key(nil), c), nil
}
