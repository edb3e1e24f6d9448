// SPDX-License-Identifier: Apache-2.0

package web

import "testing"

// TestTokenVariable names the variable as the tools read it, and none that shells refuse.
func TestTokenVariable(t *testing.T) {
	for host, want := range map[string]string{"okara.example.com": "okara_example_com", "my-okara.corp": "my__okara_corp", "127.0.0.1:17000": "", "[::1]:8080": ""} {
		if got := tokenVariable(host); got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
}
