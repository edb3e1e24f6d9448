// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/tofutest"
)

// TestPublishInterrupted shows what happens if a server is killed after each of its
// requests to the registry while it publishes, or only the answer to that
// request is lost. If another server then lists the version, it can be
// installed, and publishing again finishes the job.
//
// Shows: registries 12 | a version that is visible before it is complete | several
func TestPublishInterrupted(t *testing.T) {
	archive := depottest.ZipOf(t, map[string]string{"main.tf": "output \"x\" { value = 1 }\n"})
	binary := depottest.ZipOf(t, map[string]string{"terraform-provider-dns_v1.0.0": "binary"})
	const file = "terraform-provider-dns_1.0.0_linux_amd64.zip"
	sums := signing.Sums{file: hexSum(binary)}.Bytes()
	files := map[string][]byte{
		file: binary, "terraform-provider-dns_1.0.0_SHA256SUMS": sums,
		"terraform-provider-dns_1.0.0_SHA256SUMS.sig": must(testSigner().Sign(sums, time.Now())),
	}
	tests := []struct {
		name    string
		publish func(t *testing.T, f *front) bool
		install func(t *testing.T, f *front) (listed bool)
	}{
		{"module", func(t *testing.T, f *front) bool {
			status, _ := f.send(t, http.MethodPut, "/v1/modules/net/vpc/aws/1.0.0", "", archive)
			return status == 201 || status == 200
		}, installModule},
		{"provider", func(t *testing.T, f *front) bool {
			return f.tryPublishProvider(t, "/v1/providers/acme/dns/1.0.0", "", files)
		}, installProvider},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := 0
			for came := false; !came; {
				n++
				for name, broken := range failures(n) {
					host := ocitest.New(t, ocitest.Quirks{})
					done := tt.publish(t, newFrontAt(t, host, broken, nil))
					came = broken.Seen() < n
					if came && !done {
						t.Fatalf("%d, %s: nothing failed, and nothing was published", n, name)
					}
					reader := newFrontAt(t, host, nil, nil)
					if listed := tt.install(t, reader); done && !listed {
						t.Errorf("%d, %s: a version that was said to be published is not listed", n, name)
					}
					if !tt.publish(t, reader) || !tt.install(t, reader) {
						t.Errorf("%d, %s: publishing again does not finish", n, name)
					}
				}
			}
			if n < 10 {
				t.Errorf("only %d requests were broken", n-1)
			}
		})
	}
}

// failures returns the ways in which the nth request fails.
func failures(n int) map[string]*ocitest.Fault {
	return map[string]*ocitest.Fault{
		"killed":          {Base: &ocitest.Fault{Nth: n + 1, Times: -1, Do: ocitest.FailBefore}, Nth: n, Do: ocitest.FailAfter},
		"one answer lost": {Nth: n, Do: ocitest.FailAfter},
	}
}

func installModule(t *testing.T, f *front) bool {
	c := &tofutest.Client{Tool: tofutest.OpenTofu()}
	s := f.services(t, c)
	versions, err := c.ModuleVersions(t.Context(), s.Modules, "net/vpc/aws")
	if err != nil || !slices.Contains(versions, "1.0.0") {
		return false
	}
	if _, err := c.Module(t.Context(), s.Modules, "net/vpc/aws", "1.0.0"); err != nil {
		t.Errorf("listed and broken: %v", err)
	}
	return true
}

func installProvider(t *testing.T, f *front) bool {
	c := &tofutest.Client{Tool: tofutest.OpenTofu()}
	s := f.services(t, c)
	versions, err := c.ProviderVersions(t.Context(), s.Providers, "acme/dns")
	if err != nil || !slices.Contains(versions.List(), "1.0.0") {
		return false
	}
	if _, err := c.Provider(t.Context(), s.Providers, "example.com", "acme/dns", "1.0.0", "linux", "amd64"); err != nil {
		t.Errorf("listed and broken: %v", err)
	}
	return true
}
