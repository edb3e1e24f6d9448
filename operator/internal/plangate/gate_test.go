// SPDX-License-Identifier: Apache-2.0

package plangate_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/plangate"
	"github.com/seed-141914ff/okara/operator/internal/rig"
)

var cluster rig.Cluster

func TestMain(m *testing.M) { os.Exit(rig.Main(m, &cluster)) }

// site is a gate, a Terraform, and a client that posts plans like tofu-controller.
type site struct {
	t *testing.T
	client.Client
	run  *unstructured.Unstructured
	http *http.Client
	url  string
}

func newSite(t *testing.T) *site {
	t.Helper()
	config := cluster.Admin(t)
	rig.InstallFlux(t, config)
	c := must.Get(client.New(config, client.Options{}))(t)
	dir, caller := certificates(t)
	gate := must.Get(plangate.Listen("127.0.0.1:0", plangate.Certificates(dir), c, slog.New(slog.DiscardHandler)))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- gate.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	s := &site{t: t, Client: c, http: caller, url: "https://" + gate.Addr() + plangate.Path}
	s.run = &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"interval": "10m", "approvePlan": "", "sourceRef": map[string]any{"kind": "OCIRepository", "name": "a"}},
	}}
	s.run.SetAPIVersion("infra.contrib.fluxcd.io/v1alpha2")
	s.run.SetKind("Terraform")
	s.run.SetNamespace(cluster.Namespace(t, nil).Name)
	s.run.SetName("vpc")
	must.Succeed(t, c.Create(t.Context(), s.run))
	return s
}

// certificates makes an authority, a gate's folder, and a client.
func certificates(t *testing.T) (dir string, caller *http.Client) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "plan gate"}, DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	private := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	dir = t.TempDir()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, content := range map[string][]byte{"ca.crt": certificate, "tls.crt": certificate, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	own := must.Get(tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")))(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	return dir, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{own}, ServerName: "localhost",
	}}}
}

// post posts a plan of the Terraform, and returns whether it passed.
func (s *site) post(change string) bool {
	s.t.Helper()
	payload := s.run.DeepCopy()
	must.Succeed(s.t, s.Get(s.t.Context(), client.ObjectKeyFromObject(s.run), payload))
	payload.Object["status"] = map[string]any{"tfplan": map[string]any{
		"format_version": "1.2", "resource_changes": []any{map[string]any{"change": map[string]any{"actions": []any{"create"}, "after": change}}},
	}}
	b := must.Get(json.Marshal(payload.Object))(s.t)
	status, text := s.send(b)
	var answer struct {
		Passed  bool
		Message string
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != http.StatusOK || answer.Passed == (answer.Message != "") {
		s.t.Fatalf("%d %s %v", status, text, err)
	}
	return answer.Passed
}

func (s *site) send(body []byte) (int, string) {
	s.t.Helper()
	resp := must.Get(s.http.Post(s.url, "application/json", bytes.NewReader(body)))(s.t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(s.t)
	return resp.StatusCode, string(b)
}

func (s *site) set(patch string) *unstructured.Unstructured {
	s.t.Helper()
	o := s.run.DeepCopy()
	must.Succeed(s.t, s.Patch(s.t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(patch))))
	return o
}

func (s *site) seen() fluxexec.Gated {
	s.t.Helper()
	var g fluxexec.Gated
	must.Succeed(s.t, json.Unmarshal([]byte(s.set("{}").GetAnnotations()[fluxexec.AnnotationPlan]), &g))
	return g
}

// approve approves a digest as [fluxexec.Executor] does.
func (s *site) approve(digest string) {
	s.t.Helper()
	generation := s.set("{}").GetGeneration() + 1
	s.set(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}},"spec":{"approvePlan":"plan-%d"}}`, fluxexec.AnnotationApproved, fluxexec.Approved(digest, generation), generation))
}

// TestGate: only the unchanged approved plan passes.
func TestGate(t *testing.T) {
	s := newSite(t)
	if !s.post("a") {
		t.Error("a plan that waits was refused")
	}
	first := s.seen()
	if first.Generation != 1 || first.Adds != 1 || first.Refused {
		t.Errorf("%+v", first)
	}
	s.approve(first.Digest)
	if !s.post("a") {
		t.Error("the approved plan was refused")
	}
	if s.post("b") {
		t.Error("another plan passed")
	}
	if got := s.seen(); !got.Refused || got.Generation != 2 {
		t.Errorf("%+v", got)
	}
	s.set(`{"spec":{"approvePlan":"plan-by-hand"}}`)
	if s.post("a") {
		t.Error("an approval of before counts")
	}
	s.set(`{"spec":{"approvePlan":""}}`)
	if !s.post("b") || s.seen().Digest == first.Digest || s.seen().Refused {
		t.Errorf("%+v", s.seen())
	}
	s.set(`{"spec":{"approvePlan":"auto"}}`)
	if !s.post("c") {
		t.Error("an automatic plan was refused")
	}
	s.set(`{"metadata":{"finalizers":["finalizers.tf.contrib.fluxcd.io"]},"spec":{"approvePlan":"plan-1"}}`)
	must.Succeed(t, s.Delete(t.Context(), s.run.DeepCopy()))
	if !s.post("d") {
		t.Error("a deletion was refused")
	}
	s.set(`{"metadata":{"finalizers":null}}`)
}

// TestGateRefuses callers without certificate, and bodies.
func TestGateRefuses(t *testing.T) {
	s := newSite(t)
	own := s.http.Transport.(*http.Transport).TLSClientConfig
	nobody := own.Clone()
	nobody.Certificates = nil
	_, other := certificates(t)
	stranger := own.Clone()
	stranger.Certificates = other.Transport.(*http.Transport).TLSClientConfig.Certificates
	for name, config := range map[string]*tls.Config{"nobody": nobody, "a stranger": stranger} {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
		if resp, err := c.Post(s.url, "application/json", strings.NewReader("{}")); err == nil {
			resp.Body.Close()
			t.Errorf("%s got %s", name, resp.Status)
		}
	}
	if status, text := s.send([]byte("{}")); status != http.StatusBadRequest {
		t.Errorf("%d %s", status, text)
	}
	if status, text := s.send(make([]byte, plangate.MaxPayload+1)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", status, text)
	}
	s.run.SetName("another")
	gone := `{"metadata":{"namespace":"` + s.run.GetNamespace() + `","name":"another","uid":"a","generation":1},"status":{"tfplan":{"format_version":"1"}}}`
	if status, text := s.send([]byte(gone)); status != http.StatusNotFound {
		t.Errorf("%d %s", status, text)
	}
	if status, text := s.send([]byte(strings.Replace(gone, "another", "vpc", 1))); status != http.StatusOK || !strings.Contains(text, `"passed":false`) {
		t.Errorf("a Terraform that was made anew: %d %s", status, text)
	}
}

// TestCertificates checks that the error names missing files.
func TestCertificates(t *testing.T) {
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		dir, _ := certificates(t)
		must.Succeed(t, os.Remove(filepath.Join(dir, name)))
		if _, err := plangate.Certificates(dir).Config(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}
