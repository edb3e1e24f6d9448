// The end-to-end tests: okara, stock tofu and terraform as processes.
module github.com/seed-141914ff/okara/internal/e2e

go 1.26.0

require github.com/rogpeppe/go-internal v1.16.0

require (
	golang.org/x/sys v0.26.0 // indirect
	golang.org/x/tools v0.26.0 // indirect
)
