// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/ocitest"
)

// TestRegistryAway: no answer, or no registry's, is never "not found".
//
// Shows: cloud 10
func TestRegistryAway(t *testing.T) {
	host := newRegistry(t)
	tool := newTool(t, newServer(t, host, setup{}))
	tool.create("prod")
	tool.apply("prod", stateOf("a", 1))
	id := tool.read("prod")
	for name, fault := range map[string]struct {
		do     ocitest.Act
		passes bool // and so the request may be repeated
	}{
		"connection refused": {ocitest.Refuse, true},
		"500":                {ocitest.Status(500, 0), true},
		"429":                {ocitest.Status(429, 1), true},
		"HTML":               {ocitest.Respond("text/html", "<html>sign in</html>"), true},
		"denied":             {ocitest.Status(403, 0), false},
		"unauthorized":       {ocitest.Status(401, 0), false},
	} {
		t.Run(name, func(t *testing.T) {
			broken := tool.at(newServer(t, host, setup{via: &ocitest.Fault{Times: -1, Do: fault.do}}))
			broken.t = t
			for _, request := range requests(id) {
				method, path, _ := strings.Cut(request, " ")
				var body any
				if strings.HasSuffix(path, "/state-versions") && method == http.MethodPost {
					body = announce(stateOf("a", 2))
				}
				got := broken.do(method, path, body)
				if got.status == http.StatusNotFound || got.status < 400 || got.status >= 500 && !fault.passes {
					t.Errorf("%s: %d %s", request, got.status, got.body)
				}
				if fault.passes && method == http.MethodGet && got.status < 500 && got.status != http.StatusTooManyRequests {
					t.Errorf("%s: %d %s", request, got.status, got.body)
				}
			}
			broken.want(broken.do(http.MethodGet, workspaces, nil).status, http.MethodGet, workspaces, nil)
		})
	}
}
