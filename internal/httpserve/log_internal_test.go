// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"strings"
	"testing"
)

func TestSafePath(t *testing.T) {
	secret := "k.123.mac"
	got := SafePath("/archives/" + secret + "/acme/x/aa/f.zip")
	if strings.Contains(got, secret) || got != "/archives/-/acme/x/aa/f.zip" {
		t.Errorf("got %q", got)
	}
	if got := SafePath("/api/v2/uploads/" + secret); got != "/api/v2/uploads/-" {
		t.Errorf("got %q", got)
	}
}
