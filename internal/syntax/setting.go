// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/seed-141914ff/okara/internal/text"
)

// SettingError means that a setting is invalid, and a retry useless.
type SettingError struct{ Err error }

func (e *SettingError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *SettingError) Unwrap() error { return e.Err }

// WrongAt returns a [SettingError] with file and line.
func WrongAt(at hcl.Range, err error) error {
	return &SettingError{fmt.Errorf("%s: %w", positionText(&at), err)}
}

// Wrong returns a [SettingError] with all errors of a file, or nil.
func Wrong(diags hcl.Diagnostics) error {
	var all []error
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			all = append(all, fmt.Errorf("%s: %s", positionText(d.Subject), plainDetail(d.Detail)))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return &SettingError{errors.Join(all...)}
}

// plainDetail is what a diagnostic says, where HCL names no value that a user could write.
func plainDetail(detail string) string {
	detail = strings.TrimSuffix(detail, ".")
	if strings.Contains(detail, "an invalid expression token") {
		return `expected a value; put text in quotes, such as "127.0.0.1:8080"`
	}
	if strings.HasPrefix(detail, `Blocks of type "module" are not expected`) || strings.HasPrefix(detail, `Blocks of type "provider" are not expected`) {
		return "module and provider blocks belong in a depot file: `okara serve --depot FILE`"
	}
	for _, library := range []string{"An argument or block definition is required here", "A block definition must have block content", "Blocks are used to indicate creation"} {
		if strings.HasPrefix(detail, library) {
			return "expected an argument, NAME = VALUE, or a block, NAME { }"
		}
	}
	return detail
}

func positionText(r *hcl.Range) string {
	if r == nil {
		return "configuration"
	}
	return fmt.Sprintf("%s:%d", r.Filename, r.Start.Line)
}

// Duration is as users write it, "90s", and a pflag.Value; for files there is [CheckDuration].
type Duration string

// Set accepts the format of [time.ParseDuration].
func (d *Duration) Set(value string) error {
	if _, err := time.ParseDuration(value); err != nil {
		return err
	}
	*d = Duration(value)
	return nil
}

// Type returns the name of the type in the help of a command.
func (d *Duration) Type() string { return "duration" }

func (d *Duration) String() string { return string(*d) }

// Value returns the duration, 0 for none.
func (d Duration) Value() time.Duration {
	v, _ := time.ParseDuration(string(d)) // checked when it was set
	return v
}

// CheckDuration refuses what is not positive; empty is accepted. name is its name in the file.
func CheckDuration(at hcl.Range, name string, d Duration) error {
	if v, err := time.ParseDuration(string(d)); d != "" && (err != nil || v <= 0) {
		return WrongAt(at, fmt.Errorf("%s %q is not a duration such as \"4h\" or \"30s\"", name, string(d)))
	}
	return nil
}

// Size is as users write it, "20GiB", and a pflag.Value; for files there is [text.ParseSize].
type Size string

// Set accepts a number and a unit.
func (s *Size) Set(words string) error {
	if _, err := text.ParseSize(words); err != nil {
		return err
	}
	*s = Size(words)
	return nil
}

// Type returns the name of the type in the help of a command.
func (s *Size) Type() string { return "size" }

func (s *Size) String() string { return string(*s) }

// Value returns the number of bytes, 0 for none.
func (s Size) Value() int64 {
	n, _ := text.ParseSize(string(s)) // checked when it was set; "" is 0
	return n
}

// Networks parses a list of networks, such as 10.0.0.0/8.
func Networks(at hcl.Range, list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, value := range list {
		p, err := netip.ParsePrefix(value)
		if err != nil {
			return nil, WrongAt(at, fmt.Errorf("%q is not a network such as 10.0.0.0/8", value))
		}
		out = append(out, p)
	}
	return out, nil
}

// Instant parses a time; name is its name in the file. "" is the zero time.
func Instant(at hcl.Range, name, value string) (time.Time, error) {
	if value == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return t, WrongAt(at, fmt.Errorf("%s %q is not a time such as 2027-01-31T00:00:00Z", name, value))
	}
	return t, nil
}
