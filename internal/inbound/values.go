package inbound

import "context"

// Values is a context with values in addition to its own.
type Values struct {
	context.Context
	Of context.Context // is never cancelled, see context.WithoutCancel
}

// Value implements context.Context.
func (v *Values) Value(key any) any {
	if value := v.Of.Value(key); value != nil {
		return value
	}
	return v.Context.Value(key)
}
