// SPDX-License-Identifier: Apache-2.0

package backendblock

import (
	"strings"
	"time"
)

// Option is one argument.
type Option struct {
	Name    string // with its block as a prefix: "retry.max_attempts"
	Default string // for the documentation, Markdown; "": none
	What    string // one line of Markdown
	Kind    Kind
	Reads   bool // it also affects callers that only read states

	target func(*Arguments) any // the field that stores its value
}

// Kind is the type of an option's value.
type Kind int

// The kinds of values. Durations are text in the configuration: "30s", "5m".
const (
	Text Kind = iota
	Flag
	Number
	Duration
	List // of text
)

// Block returns the block of an option, "" for none, and the option's name in the block.
func (o Option) Block() (block, name string) {
	if block, name, ok := strings.Cut(o.Name, "."); ok {
		return block, name
	}
	return "", o.Name
}

// Variable returns the environment variable that sets the option if nothing else does.
func (o Option) Variable() string {
	return "TF_BACKEND_OCI_" + strings.ToUpper(strings.ReplaceAll(o.Name, ".", "_"))
}

// Options returns the table of all arguments, in the order of the documentation.
func Options() []Option {
	list := append(locationOptions(), lockOptions()...)
	list = append(append(list, storageOptions()...), keyOptions()...)
	for i := range list {
		list[i].Kind = kindOf(list[i].target(New("")))
	}
	return list
}

// locationOptions are the options that say where states are.
func locationOptions() []Option {
	return []Option{
		{
			Name: "repository", Reads: true, target: func(a *Arguments) any { return &a.backend.Repository },
			What: "`HOST[:PORT]/PATH`; required. `{workspace}` in it gives each workspace a repository of its own; the tools then list only the selected one",
		}, {
			Name: "primary_repository", Reads: true, target: func(a *Arguments) any { return &a.primary },
			What: "with another `repository`: the original that `repository` is a [copy](../use/state-move.md#replicate) of, required to decrypt states encrypted there; alone: the same as `repository`",
		}, {
			Name: "replicas", target: func(a *Arguments) any { return &a.backend.Replicas },
			What: "list of repositories that get a copy when a run ends",
		}, {
			Name: "ca_file", Reads: true, target: func(a *Arguments) any { return &a.backend.CAFile },
			What: "PEM file of certificate authorities to trust besides the system's",
		}, {
			Name: "insecure", Default: "`false`", Reads: true, target: func(a *Arguments) any { return &a.backend.Insecure },
			What: "do not verify TLS certificates",
		}, {
			Name: "plain_http", Default: "`false`", Reads: true, target: func(a *Arguments) any { return &a.backend.PlainHTTP },
			What: "use plain HTTP for a registry that is not on loopback",
		},
		{
			Name: "retry.max_attempts", Default: "`5`", Reads: true, target: func(a *Arguments) any { return &a.backend.Retry.MaxAttempts },
			What: "maximum number of attempts per registry request",
		}, {
			Name: "retry.initial_backoff", Default: "`500ms`", Reads: true, target: func(a *Arguments) any { return &a.backend.Retry.InitialBackoff },
			What: "pause before the second attempt",
		}, {
			Name: "retry.max_backoff", Default: "`30s`", Reads: true, target: func(a *Arguments) any { return &a.backend.Retry.MaxBackoff },
			What: "longest pause between two attempts",
		},
	}
}

// lockOptions returns the options of locks, and of reads without a lock.
func lockOptions() []Option {
	return []Option{
		{
			Name: "lock_timeout", Default: "`0s`", target: func(a *Arguments) any { return &a.backend.LockTimeout },
			What: "how long to wait for a lock held by someone else; `-lock-timeout` of the tool takes precedence where the tool passes it on",
		}, {
			Name: "lock_ttl", Default: "none", target: func(a *Arguments) any { return &a.backend.LockTTL },
			What: "[lease](../use/state-locks.md#leases): a lock that is not renewed for this long may be taken over; use at least a minute",
		}, {
			Name: "lock_settle", Default: "by registry", target: func(a *Arguments) any { return &a.backend.LockSettle },
			What: "how long the registry's tag list may lag behind",
		}, {
			Name: "unsafe_locking", Default: "`false`", target: func(a *Arguments) any { return &a.backend.UnsafeLocking },
			What: "allow locking on a registry that okara rejects",
		}, {
			Name: "strict_reads", Default: "`false`", target: func(a *Arguments) any { return &a.backend.StrictReads },
			What: "reads without a lock find the highest version instead of trusting the pointer",
		},
	}
}

func storageOptions() []Option {
	return []Option{
		{
			Name: "compression", Default: "`zstd`", target: func(a *Arguments) any { return &a.backend.Compression },
			What: "`zstd`, `gzip` or `none`",
		}, {
			Name: "versioning.enabled", Default: "`true`", target: func(a *Arguments) any { return &a.versioning.enabled },
			What: "`false` keeps 2 versions",
		}, {
			Name: "versioning.max_versions", Default: "all", target: func(a *Arguments) any { return &a.versioning.max },
			What: "how many versions are kept",
		},
	}
}

// keyOptions returns the options of encryption, which may be repeated.
func keyOptions() []Option {
	return []Option{
		{
			Name: "encryption.key_id", Reads: true, target: func(a *Arguments) any { return &a.currentKey().KeyID },
			What: "a KMS URL, an age recipient or the path of a key file; see [Keys](../use/state-keys.md)",
		}, {
			Name: "encryption.identity", Reads: true, target: func(a *Arguments) any { return &a.currentKey().Identity },
			What: "path of an age identity file for decryption",
		}, {
			Name: "encryption.type", Default: "`aes-gcm`", Reads: true, target: func(a *Arguments) any { return &a.currentKey().Type },
			What: "`aes-gcm`, the only type",
		},
	}
}

// kindOf returns the kind of an option from the type of its field.
func kindOf(target any) Kind {
	switch target.(type) {
	case *bool, **bool:
		return Flag
	case *int, **int:
		return Number
	case *time.Duration:
		return Duration
	case *[]string:
		return List
	}
	return Text
}

// Known reports whether an argument of that name exists.
func Known(name string) bool {
	_, ok := findOption(name)
	return ok
}

func findOption(name string) (Option, bool) {
	for _, o := range Options() {
		if o.Name == name {
			return o, true
		}
	}
	return Option{}, false
}
