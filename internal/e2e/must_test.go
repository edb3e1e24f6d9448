// SPDX-License-Identifier: Apache-2.0

package e2e_test

import "testing"

// must returns a call's value; this module imports no package of okara.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		succeed(t, err)
		return v
	}
}

func succeed(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustBoth[A, B any](a A, b B, err error) func(testing.TB) (A, B) {
	return func(t testing.TB) (A, B) {
		t.Helper()
		succeed(t, err)
		return a, b
	}
}
