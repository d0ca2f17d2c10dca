module github.com/wskit/wskit/verify

go 1.26.0

replace github.com/wskit/wskit => ../

require (
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	github.com/wskit/wskit v0.0.0
)

require (
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3 // indirect
	github.com/sony/gobreaker/v2 v2.4.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
