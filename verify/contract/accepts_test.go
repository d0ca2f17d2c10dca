package contract_test

import "github.com/go-playground/validator/v10"

var validate = validator.New()

// accepts reports whether a text is valid by a tag, so that the generator can choose it.
func accepts(tag, text string) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return validate.Var(text, tag) == nil
}
