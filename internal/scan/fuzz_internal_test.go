// SPDX-License-Identifier: Apache-2.0

package scan

import "testing"

// FuzzSARIF parses arbitrary text as the report of a scanner.
func FuzzSARIF(f *testing.F) {
	f.Add([]byte(`{"version":"2.1.0","runs":[{"tool":{"driver":{"rules":[{"id":"a","properties":{"security-severity":"9.8"}}]}},"results":[{"ruleId":"a","ruleIndex":0},{"ruleId":"a"}]}]}`))
	f.Add([]byte(`{"version":"2.1.0","runs":[{"results":[{"level":"error","suppressions":[{}]}]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseSARIF(b)
		if n := c.Critical + c.High + c.Medium + c.Low; err != nil && n > 0 || n > len(b) {
			t.Errorf("%+v, %v of %d bytes", c, err, len(b))
		}
	})
}
