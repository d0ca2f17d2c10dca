package main

import "encoding/json"

// answer is what is read of a frame.
type answer struct {
	Type string `json:"type"`
	Meta struct {
		ID string `json:"correlationId"`
	} `json:"meta"`
	Payload json.RawMessage `json:"payload"`
}

// refused is the code of an answer that is an error, or empty.
func (a answer) refused() string {
	if a.Type != "RPC_ERROR" && a.Type != "ERROR" {
		return ""
	}
	var e struct{ Code string }
	if json.Unmarshal(a.Payload, &e) != nil || e.Code == "" {
		return a.Type
	}
	return e.Code
}

// final says that no more frames answer the request.
func (a answer) final() bool { return a.Type != "$ws:rpc-progress" }

// outcome is how a message was answered: the code of an error, or OK.
func (a answer) outcome() string {
	if code := a.refused(); code != "" {
		return code
	}
	return "OK"
}
