package run

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/wskit/wskit/errors"
)

// Question is a question of a run.
type Question struct {
	// ID is its id in the run, which the answer has as Steer.To.
	ID string `json:"id"`
	// Question is what [Ask] got.
	Question json.RawMessage `json:"question"`
}

// Ask asks the user a question, as JSON of 256 KiB at most, and returns the first answer, from whatever device: one that
// attaches later sees the question, too, and all see when it is answered. It waits for that until ctx or the run ends,
// which gives the question up. The error is INVALID_ARGUMENT if the answer is no A. A run may ask several questions at
// the same time.
func Ask[A any](ctx context.Context, w *Writer, question any) (answer A, err error) {
	data, err := w.ask(ctx, question)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return answer, errors.InvalidArgument.Wrap(err, "run: the answer is not of the type that was asked for")
	}
	return answer, nil
}

func (w *Writer) ask(ctx context.Context, question any) (answer json.RawMessage, err error) {
	text, err := encode("question", question)
	if err != nil {
		return nil, err
	}
	answers := make(chan input, 1)
	w.mu.Lock()
	w.asks++
	id := strconv.Itoa(w.asks)
	if err = w.takes(len(text)); err == nil {
		w.asked[id] = answers
	}
	w.mu.Unlock()
	if err == nil {
		err = w.flush(&Output{Question: &Question{id, text}})
	}
	if err != nil {
		return nil, err
	}
	var in input
	select {
	case in = <-answers:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-w.ctx.Done():
		err = context.Cause(w.ctx)
	}
	if err != nil {
		w.mu.Lock()
		_, open := w.asked[id]
		delete(w.asked, id)
		w.mu.Unlock()
		if open {
			_ = w.flush(&Output{Closed: id}) // the end of the run would say it, too
			return nil, err
		}
		in = <-answers // one has come at the same time
	}
	return in.Data, w.flush(&Output{Taken: in.ID, Closed: id})
}
