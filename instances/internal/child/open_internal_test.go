// SPDX-License-Identifier: Apache-2.0

package child

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-141914ff/okara/instances/internal/runtest"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// TestCertificatesOfHost: a child trusts the certificates in Docker's folder for its
// registry, as the server does; without them it refuses the connection.
func TestCertificatesOfHost(t *testing.T) {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: ocitest.New(t, ocitest.Quirks{})})
	srv := httptest.NewTLSServer(proxy)
	t.Cleanup(srv.Close)
	host, dir := strings.TrimPrefix(srv.URL, "https://"), t.TempDir()
	runtest.MustWrite(t, filepath.Join(dir, host, "ca.crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})))
	for name, dirs := range map[string][]string{"with": {dir}, "without": nil} {
		o := &sandbox.Order{Scratch: t.TempDir(), Registry: sandbox.Registry{Prefix: host, CertDirs: dirs}}
		repo, err := openRepo(o, host+"/acme/x", "okara/test")
		if err != nil {
			t.Fatal(err)
		}
		_, err = repo.EnsureBlob(t.Context(), oci.EmptyBlob())
		if (err == nil) != (dirs != nil) {
			t.Errorf("%s the folder: %v", name, err)
		}
	}
}

// TestLocalResult: the copy of the result beside a run is not sealed, and has no
// sensitive variables; the sealed result has.
func TestLocalResult(t *testing.T) {
	tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), runtest.Script{}.Module())
	tr.order.Spec.Variables = map[string]json.RawMessage{"password": json.RawMessage(`"planted"`), "size": json.RawMessage(`"small"`)}
	tr.order.Spec.Sensitive = []string{"password"}
	if r, _ := tr.run(); string(r.Variables["password"]) != `"planted"` {
		t.Errorf("sealed: %s", r.Variables)
	}
	b, err := os.ReadFile(filepath.Join(tr.order.Scratch, sandbox.ResultFile))
	if err != nil || strings.Contains(string(b), "planted") || !strings.Contains(string(b), "small") {
		t.Errorf("%s, %v", b, err)
	}
}

// TestLedgerWhileWritten: a version of the ledger that is listed but cannot be read yet,
// because it is being written, does not end an attempt.
func TestLedgerWhileWritten(t *testing.T) {
	tr := newTrial(t, ocitest.New(t, ocitest.Quirks{}), runtest.Script{}.Module())
	var asked atomic.Int32
	tr.named.Store(new(func() (bool, string, error) {
		if asked.Add(1)%2 == 1 {
			return false, "", fmt.Errorf("it is listed, and not there: %w", oci.ErrCorrupt)
		}
		return true, "", nil
	}))
	if r, log := tr.run(); r.Outcome != lifecycle.Done {
		t.Errorf("report %+v\n%s", r, log)
	}
}
