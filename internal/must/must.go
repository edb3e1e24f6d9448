// SPDX-License-Identifier: Apache-2.0

package must

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Get returns the value of a call: must.Get(os.ReadFile(name))(t).
func Get[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Succeed(t, err)
		return v
	}
}

// GetBoth returns the two values of a call.
func GetBoth[A, B any](a A, b B, err error) func(testing.TB) (A, B) {
	return func(t testing.TB) (A, B) {
		t.Helper()
		Succeed(t, err)
		return a, b
	}
}

// Succeed ends the test if a call that has no value returned an error.
func Succeed(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Fixed returns the value of a call that cannot fail, where there is no test: it panics.
func Fixed[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Equal reports a value that is not the wanted one, and lets the test go on.
func Equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Match reports what differs between a value and the wanted one, and lets the test go on.
func Match(t testing.TB, what string, got, want any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
