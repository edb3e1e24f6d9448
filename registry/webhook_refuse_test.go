// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// TestHookRefuses sends deliveries that require no action. GitHub gets no
// request, and nothing is recorded.
func TestHookRefuses(t *testing.T) {
	api := &forge{}
	h := newHooked(t, ocitest.Handler(t, ocitest.Quirks{}), api)
	good := pushed("acme/terraform-aws-vpc", "v1.0.0", commitA)
	tests := []struct {
		name, event, body string
		header            []string
		want              int
		text              string
	}{
		{"form", "push", "payload=%7B%7D", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "application/json"},
		{"no content type", "push", good, []string{"Content-Type", ""}, 415, ""},
		{"no signature", "push", good, []string{"X-Hub-Signature-256", ""}, 401, "X-Hub-Signature-256"},
		{"old signature", "push", good, []string{"X-Hub-Signature-256", "", "X-Hub-Signature", "sha1=00"}, 401, ""},
		{"wrong secret", "push", good, []string{"X-Hub-Signature-256", hookSign("0123456789abcdef", good)}, 401, ""},
		{"other body", "push", good, []string{"X-Hub-Signature-256", hookSign(hookSecret, good+" ")}, 401, ""},
		{"short signature", "push", good, []string{"X-Hub-Signature-256", "sha256=00"}, 401, ""},
		{"signature without name", "push", good, []string{"X-Hub-Signature-256", hookSign(hookSecret, good)[7:]}, 401, ""},
		{"too large", "push", strings.Repeat(" ", 5<<20) + good, nil, 413, "5242880"},
		{"too large and unsigned", "push", strings.Repeat(" ", 6<<20), []string{"X-Hub-Signature-256", ""}, 401, ""},
		{"no delivery", "push", good, []string{"X-GitHub-Delivery", ""}, 400, "X-GitHub-Delivery"},
		{"bad delivery", "push", good, []string{"X-GitHub-Delivery", "a b"}, 400, "X-GitHub-Delivery"},
		{"no JSON", "push", "{", nil, 400, "not an event"},
		{"other JSON", "push", "[]", nil, 400, "not an event"},
		{"no repository", "push", `{"ref":"refs/tags/v1.0.0","head_commit":{"id":"` + commitA + `"}}`, nil, 400, "repository"},
		{"no commit's name", "push", pushed("acme/terraform-aws-vpc", "v1.0.0", "main"), nil, 400, "commit"},
		{"long tag", "push", pushed("acme/infra", strings.Repeat("a", 2000)+"/v1.0.0", commitA), nil, 400, "tag"},
		{"ping", "ping", `{"zen":"Design for failure."}`, nil, 200, `"pong"`},
		{"branch", "push", `{"ref":"refs/heads/main",` + repositoryOf("acme/terraform-aws-vpc") + `}`, nil, 200, "not of a tag"},
		{"deleted tag", "push", `{"ref":"refs/tags/v1.0.0","deleted":true,"head_commit":null,` + repositoryOf("acme/terraform-aws-vpc") + `}`, nil, 200, "deleted"},
		{"deletion", "delete", `{"ref":"v1.0.0","ref_type":"tag",` + repositoryOf("acme/terraform-aws-vpc") + `}`, nil, 200, "ignored"},
		{"new branch", "create", `{"ref":"v1.0.0","ref_type":"branch",` + repositoryOf("acme/terraform-aws-vpc") + `}`, nil, 200, "branch"},
		{"edited release", "release", `{"action":"edited","release":{"tag_name":"v1.0.0"},` + repositoryOf("acme/terraform-aws-vpc") + `}`, nil, 200, "not published"},
		{"other event", "star", `{"action":"created",` + repositoryOf("acme/terraform-aws-vpc") + `}`, nil, 200, "star"},
		{"unknown owner", "push", pushed("evil/terraform-aws-vpc", "v1.0.0", commitA), nil, 200, "no configuration for evil"},
		{"another's owner", "push", pushed("other/terraform-aws-vpc", "v1.0.0", commitA), nil, 200, "no configuration for other"},
		{"unknown repository", "push", pushed("acme/website", "v1.0.0", commitA), nil, 200, "terraform-SYSTEM-NAME"},
		{"name that cannot be stored", "push", pushed("acme/terraform-aws-v_-c", "v1.0.0", commitA), nil, 200, "ignored"},
		{"no version", "push", pushed("acme/terraform-aws-vpc", "nightly", commitA), nil, 200, "nightly"},
		{"folder of one module", "push", pushed("acme/terraform-aws-vpc", "modules/x/v1.0.0", commitA), nil, 200, "modules/x"},
		{"no folder of many modules", "push", pushed("acme/infra", "v1.0.0", commitA), nil, 200, "does not name a folder"},
		{"other folder", "push", pushed("acme/storage", "docs/v1.0.0", commitA), nil, 200, "docs"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body := h.deliver(t, tt.event, tt.body, tt.header...)
			if status != tt.want || !strings.Contains(body, tt.text) {
				t.Errorf("%d %s, want %d with %q", status, body, tt.want, tt.text)
			}
			must.Equal(t, "a denial in the audit log", strings.Contains(h.audit.take(), `"decision":"denied"`), (tt.want == 401))
		})
	}
	queue := must.Fixed(h.client.Repo("platform/queue"))
	if _, err := queue.Snapshot(t.Context()); !errors.Is(err, oci.ErrNotFound) || api.asked() != 0 {
		t.Errorf("queue: %v, %d requests to GitHub; want neither", err, api.asked())
	}
	if status, body := h.get(t, "/hooks/github"); status != http.StatusMethodNotAllowed && status != http.StatusNotFound {
		t.Errorf("GET: %d %s", status, body)
	}
}

// slowSender is the connection of a delivery that never arrives. Its reads end at their deadline.
type slowSender struct {
	*httptest.ResponseRecorder
	body *io.PipeWriter
}

func (s *slowSender) SetReadDeadline(at time.Time) error {
	if !at.IsZero() {
		time.AfterFunc(time.Until(at), func() { _ = s.body.CloseWithError(os.ErrDeadlineExceeded) })
	}
	return nil
}

// TestHookCrowd: senders that never finish are dropped; a delivery from elsewhere is answered.
//
// Shows: mistakes 12 | slow senders without a token occupied all slots for webhooks | a small body
// must arrive within 2 seconds, a longer one within 8; each client has a limited share
func TestHookCrowd(t *testing.T) {
	store := ocitest.Handler(t, ocitest.Quirks{})
	for _, test := range []struct {
		name    string
		senders func(i int) (address string)
		length  int64
		within  time.Duration // until a delivery from elsewhere is answered
		gone    time.Duration // until all have been dropped
	}{
		{"one address", func(int) string { return "203.0.113.1:1" }, 100, 0, 8 * time.Second},
		{"one network", func(i int) string { return fmt.Sprintf("[2001:db8::%x]:1", i+1) }, 100, 0, 8 * time.Second},
		{"large", func(int) string { return "203.0.113.1:1" }, 5 << 20, 0, 8 * time.Second},
		{"of no length", func(int) string { return "203.0.113.1:1" }, -1, 0, 8 * time.Second},
		{"many addresses", func(i int) string { return fmt.Sprintf("203.0.113.%d:1", i) }, 100, 2 * time.Second, 8 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHooked(t, store, &forge{})
				start := time.Now()
				var running sync.WaitGroup
				for i := range 256 {
					body, sender := io.Pipe()
					r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hooks/github", body)
					r.RemoteAddr, r.ContentLength = test.senders(i), test.length
					r.Header.Set("Content-Type", "application/json")
					r.Header.Set("X-Hub-Signature-256", hookSign("guessed", ""))
					running.Go(func() {
						w := &slowSender{httptest.NewRecorder(), sender}
						if h.ServeHTTP(w, r); w.Code != http.StatusBadRequest && w.Code != http.StatusServiceUnavailable {
							t.Errorf("a delivery that does not arrive: %d %s", w.Code, w.Body)
						}
					})
				}
				synctest.Wait()
				if status, body := h.deliver(t, "ping", "{}"); status != http.StatusOK || time.Since(start) > test.within {
					t.Errorf("a delivery among them: %d %s after %s", status, body, time.Since(start))
				}
				running.Wait()
				if took := time.Since(start); took > test.gone {
					t.Errorf("the last one was sent away after %s", took)
				}
			})
		})
	}
}

// TestHookSecrets looks for the forge's token, its signed links and the
// webhook's secrets in all output.
//
// Shows: registries 22 | secrets that the API shows | PacoVK/tapir GHSA-rj9m-qf65-f5gg
func TestHookSecrets(t *testing.T) {
	store := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		api := &forge{failing: 1, trees: map[string][]byte{commitA: newTree(map[string]string{"main.tf": ""})}}
		h := newHooked(t, store, api)
		defer h.run(t)()
		var said strings.Builder
		for _, d := range [][2]string{
			{"push", pushed("acme/terraform-aws-vpc", "v1.0.0", commitA)},
			{"push", pushed("acme/terraform-aws-vpc", "v2.0.0", commitB)}, // the forge does not have it
			{"push", pushed("Other/terraform-aws-vpc", "v2.0.0", commitA)},
			{"push", "{"},
		} {
			_, body := h.deliver(t, d[0], d[1])
			said.WriteString(body)
		}
		time.Sleep(6 * time.Hour)
		synctest.Wait()
		h.mustVersions(t, "acme/vpc/aws", "1.0.0")
		w := httptest.NewRecorder()
		h.metrics.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		metrics := w.Body.String()
		if !strings.Contains(metrics, `okara_queue_jobs{state="failed"} 1`) || !strings.Contains(metrics, `okara_queue_jobs{state="done"} 1`) {
			t.Errorf("metrics: %s", metrics)
		}
		said.WriteString(metrics + h.log.take() + h.audit.take())
		queue := must.Fixed(h.client.Repo("platform/queue"))
		for _, tag := range must.Fixed(queue.Snapshot(t.Context())).Tags {
			said.Write(must.Fixed(queue.Fetch(t.Context(), tag)).Bytes)
		}
		for _, secret := range []string{hookToken, hookSecret, otherHook, "s3cretLink", "u:p@"} {
			if strings.Contains(said.String(), secret) {
				t.Errorf("%q was written: %s", secret, said.String())
			}
		}
	})
}
