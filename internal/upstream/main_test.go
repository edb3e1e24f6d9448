// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"os"
	"testing"

	"github.com/seed-141914ff/okara/internal/upstream"
)

// TestMain lets the test program act as okara: a checkout starts this program.
func TestMain(m *testing.M) {
	if code, ok := upstream.Child(os.Args, os.Stdin, os.Stdout); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}
