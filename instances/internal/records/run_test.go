// SPDX-License-Identifier: Apache-2.0

package records_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"

	digest "github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// placeSealer encrypts with a fixed key, without envelope's key services.
type placeSealer struct{ cipher.AEAD }

func newInstanceSealer(t *testing.T) artifact.Sealer {
	t.Helper()
	block := must.Get(aes.NewCipher(make([]byte, 32)))(t)
	aead := must.Get(cipher.NewGCMWithRandomNonce(block))(t)
	return placeSealer{aead}
}

func (s placeSealer) Seal(_ context.Context, plain, aad []byte) ([]byte, map[string]string, error) {
	return s.AEAD.Seal(nil, nil, plain, aad), map[string]string{"vnd.okara.state.envelope": "test"}, nil
}

func (s placeSealer) Open(_ context.Context, sealed []byte, ann map[string]string, aad []byte) ([]byte, error) {
	if ann["vnd.okara.state.envelope"] != "test" {
		return nil, errors.New("no envelope")
	}
	return s.AEAD.Open(nil, nil, sealed, aad)
}

func TestInstanceTags(t *testing.T) {
	for tag, want := range map[string]records.InstanceTag{
		"source-abc-1":    {Kind: records.TagSource, ID: "abc", N: 1},
		"run-abc-12-3":    {Kind: records.TagRun, ID: "abc", N: 12, Attempt: 3},
		"log-a2-1-1":      {Kind: records.TagLog, ID: "a2", N: 1, Attempt: 1},
		"record-abc":      {Kind: records.TagFinal, ID: "abc"},
		"run-abc-12":      {},
		"run-abc-01-1":    {},
		"source-abc":      {},
		"source-abc-1-1":  {},
		"record-abc-1":    {},
		"run-a/b-1-1":     {},
		"run-abc-1-1-1":   {},
		"state-default":   {},
		"locked-default":  {},
		"run-ABC-1-1":     {},
		"run-abc-0-1":     {},
		"log-abc-1-1 ":    {},
		"run-abc-9999999": {},
	} {
		got, ok := records.ParseInstanceTag(tag)
		if ok != (want != records.InstanceTag{}) || ok && got != want {
			t.Errorf("%s: %+v, %v, want %+v", tag, got, ok, want)
		}
	}
}

func FuzzParseInstanceTag(f *testing.F) {
	f.Add("run-abc-1-2")
	f.Fuzz(func(t *testing.T, tag string) {
		if got, ok := records.ParseInstanceTag(tag); ok && got.String() != tag {
			t.Errorf("%q is read as %q", tag, got)
		}
	})
}

// TestRun writes and reads the report of an attempt on every registry.
func TestRun(t *testing.T) {
	sealer := newInstanceSealer(t)
	ocitest.Each(t, func(t *testing.T, host string) {
		ctx := t.Context()
		i := records.InstanceRepo{Repo: ocitest.Repo(t, host), Sealer: sealer}
		a := lifecycle.Ref{ID: "abc", N: 2, Attempt: 1, Nonce: "n1"}
		if _, err := i.Run(ctx, a); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("no result: %v", err)
		}
		files := records.RunFiles{
			Result: []byte(`{"nonce":"n1","outcome":"done"}`), Log: bytes.Repeat([]byte("a line\n"), 1000),
			Plan: []byte("plan"), Lock: []byte("# lock\n"),
		}
		must.Succeed(t, i.PutRun(ctx, a, files))
		if err := i.PutRun(ctx, a, files); !errors.Is(err, oci.ErrExists) {
			t.Errorf("second result: %v", err)
		}
		got := must.Get(i.Run(ctx, a))(t)
		log, lerr := got.Log(ctx)
		plan, perr := got.Plan(ctx)
		lock, kerr := got.Lock(ctx)
		must.Succeed(t, errors.Join(lerr, perr, kerr))
		for _, f := range []struct{ got, want []byte }{{got.JSON, files.Result}, {log, files.Log}, {plan, files.Plan}, {lock, files.Lock}} {
			if !bytes.Equal(f.got, f.want) {
				t.Errorf("got %.40q, want %.40q", f.got, f.want)
			}
		}
		sum := sha256.Sum256(files.Lock)
		if lock, err := i.LockFile(ctx, digest.NewDigestFromBytes(digest.SHA256, sum[:])); err != nil || !bytes.Equal(lock, files.Lock) {
			t.Errorf("lock file by digest: %q, %v", lock, err)
		}
		if _, err := i.Run(ctx, lifecycle.Ref{ID: "abc", N: 2, Attempt: 1, Nonce: "n2"}); !errors.Is(err, oci.ErrCorrupt) {
			t.Errorf("another nonce: %v", err)
		}
		if _, err := i.Run(ctx, lifecycle.Ref{ID: "abc", N: 2, Attempt: 1}); !errors.Is(err, oci.ErrCorrupt) {
			t.Errorf("no nonce: %v", err)
		}
	})
}

// TestRunElsewhere copies tags and opens them with and without keys.
func TestRunElsewhere(t *testing.T) {
	ctx, repo := t.Context(), ocitest.Repo(t, ocitest.New(t, ocitest.Quirks{}))
	sealed := records.InstanceRepo{Repo: repo, Sealer: newInstanceSealer(t)}
	plain := records.InstanceRepo{Repo: repo}
	a := lifecycle.Ref{ID: "abc", N: 1, Attempt: 1, Nonce: "n"}
	must.Succeed(t, sealed.PutRun(ctx, a, records.RunFiles{Result: []byte(`{"nonce":"n"}`)}))
	m := must.Get(repo.Fetch(ctx, "run-abc-1-1"))(t)
	must.Succeed(t, repo.PutTag(ctx, "run-abc-1-2", m))
	moved := a
	moved.Attempt = 2
	if _, err := sealed.Run(ctx, moved); !errors.Is(err, oci.ErrCorrupt) {
		t.Errorf("a result under another tag: %v", err)
	}
	if _, err := plain.Run(ctx, a); !errors.Is(err, oci.ErrUnsupported) {
		t.Errorf("a sealed result without keys: %v", err)
	}
	other := a
	other.N = 2
	must.Succeed(t, plain.PutRun(ctx, other, records.RunFiles{Result: []byte(`{"nonce":"n"}`)}))
	if _, err := plain.Run(ctx, other); err != nil {
		t.Errorf("a result in clear, without keys: %v", err)
	}
	if _, err := sealed.Run(ctx, other); !errors.Is(err, oci.ErrCorrupt) {
		t.Errorf("a result in clear, with keys: %v", err)
	}
}

func TestInstanceLogAndRecord(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		ctx := t.Context()
		i := records.InstanceRepo{Repo: ocitest.Repo(t, host), Sealer: newInstanceSealer(t)}
		a := lifecycle.Ref{ID: "abc", N: 1, Attempt: 1}
		for _, want := range []string{"", "one\n", "one\ntwo\n"} {
			must.Succeed(t, i.PutLog(ctx, a, []byte(want)))
			if got, err := i.Log(ctx, a); err != nil || string(got) != want {
				t.Errorf("log %q, %v, want %q", got, err, want)
			}
		}
		must.Succeed(t, i.PutFinal(ctx, "abc", []byte(`{}`)))
		if got, err := i.Final(ctx, "abc"); err != nil || string(got) != `{}` {
			t.Errorf("record %q, %v", got, err)
		}
	})
}

func TestSource(t *testing.T) {
	ctx, repo := t.Context(), ocitest.Repo(t, ocitest.New(t, ocitest.Quirks{}))
	i := records.InstanceRepo{Repo: repo}
	s := records.Source{
		Zip: oci.BytesBlob("", []byte("PK")), Lock: []byte("lock"), Template: []byte(`{"name":"a/b"}`),
		Annotations: map[string]string{"okara_template": "a/b"},
	}
	for range 2 { // the same content again is no error
		must.Succeed(t, i.PutSource(ctx, "abc", 1, s))
	}
	got := must.Get(i.Source(ctx, "abc", 1))(t)
	if got.Zip.Digest != s.Zip.Digest || got.Lock == nil || got.Annotations["okara_template"] != "a/b" {
		t.Errorf("source %+v", got)
	}
	if b, err := i.Template(ctx, got); err != nil || string(b) != string(s.Template) {
		t.Errorf("template %q, %v", b, err)
	}
	s.Lock = []byte("another")
	if err := i.PutSource(ctx, "abc", 1, s); !errors.Is(err, oci.ErrExists) {
		t.Errorf("another source: %v", err)
	}
	s.Annotations = map[string]string{"org.opencontainers.image.source": "x"}
	if err := i.PutSource(ctx, "abc", 2, s); err == nil || !strings.Contains(err.Error(), "okara_") {
		t.Errorf("foreign annotation: %v", err)
	}
	if _, err := i.Source(ctx, "abc", 9); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("no source: %v", err)
	}
}

// TestInstanceRequests counts a first run's, without its state's.
func TestInstanceRequests(t *testing.T) {
	ctx, count := t.Context(), &ocitest.Count{}
	client := must.Get(oci.New(ocitest.New(t, ocitest.Quirks{}), oci.Options{Transport: count, SinglePost: true, PlainHTTP: true}))(t)
	repo := func(name string) *oci.Repo { return must.Get(client.Repo(name))(t) }
	module, queue := repo("modules/net"), repo("queue")
	zip := oci.BytesBlob(artifact.MediaZip, []byte("PK"))
	for _, b := range []oci.Blob{oci.EmptyBlob(), zip} {
		must.Succeed(t, module.PushBlob(ctx, b))
	}
	zip.From, zip.Open = module, func() (io.ReadCloser, error) { return module.Open(ctx, zip.Descriptor) }
	i := records.InstanceRepo{Repo: repo("instances/abc"), Sealer: newInstanceSealer(t)}
	entry := func(id string) func() error {
		return func() error { return records.AddInstanceEntry(ctx, queue, id, "a/b", "") }
	}
	a := lifecycle.Ref{ID: "abc", N: 1, Attempt: 1, Nonce: "n"}
	source := records.Source{Zip: zip, Template: []byte("{}2"), First: true}
	own := source
	own.Zip.From, own.First = i.Repo, false
	for _, step := range []struct {
		name string
		do   func() error
		want map[string]int
	}{
		{"the first entry", entry("k7m2p9x4tq"), map[string]int{"PUT manifest": 2, "POST upload": 1}},
		{"one more", entry("k7m2p9x4tr"), map[string]int{"PUT manifest": 1}},
		{"the same", entry("k7m2p9x4tr"), map[string]int{"PUT manifest": 1}},
		{"source", func() error { return i.PutSource(ctx, "abc", 1, source) }, map[string]int{"POST upload": 3, "PUT manifest": 1}},
		{"source of a later run", func() error { return i.PutSource(ctx, "abc", 2, own) }, map[string]int{"HEAD manifest": 1, "POST upload": 1, "PUT manifest": 1}},
		{"result", func() error {
			return i.PutRun(ctx, a, records.RunFiles{Result: []byte(`{"nonce":"n"}`), Log: []byte("log"), Unlisted: true})
		}, map[string]int{"POST upload": 2, "PUT manifest": 1}},
		{"reading it", func() error { _, err := i.Run(ctx, a); return err }, map[string]int{"GET manifest": 1}},
	} {
		count.Take()
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		must.Match(t, step.name, count.Take(), step.want)
	}
}

// TestSourceLostMount: a blob that was mounted and is not there is sent.
func TestSourceLostMount(t *testing.T) {
	ctx := t.Context()
	host := ocitest.New(t, ocitest.Quirks{})
	zip := oci.BytesBlob(artifact.MediaZip, []byte("PK"))
	i := records.InstanceRepo{Repo: ocitest.Repo(t, host)}
	zip.From = i.Repo // it is not in that repository
	must.Succeed(t, i.PutSource(ctx, "abc", 1, records.Source{Zip: zip}))
	if b, err := i.Repo.ReadBlob(ctx, zip.Descriptor, 10); err != nil || string(b) != "PK" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestInstanceEntry(t *testing.T) {
	c := must.Get(oci.New(ocitest.New(t, ocitest.Quirks{}), oci.Options{PlainHTTP: true}))(t)
	r := must.Get(c.Repo("acme/queue"))(t)
	const id = "k7m2p9x4tq"
	want := artifact.CatalogEntry{Kind: addr.KindInstance, Address: "sandbox/vpc", Repository: "acme/instances/sandbox/vpc/k7m2p9x4tq"}
	if _, err := records.ReadInstanceEntry(t.Context(), r, id); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("before it is there: %v", err)
	}
	for range 2 { // it may be repeated
		must.Succeed(t, records.AddInstanceEntry(t.Context(), r, id, want.Address, want.Repository))
	}
	if got, err := records.ReadInstanceEntry(t.Context(), r, id); err != nil || got.Address != want.Address || got.Repository != want.Repository {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if err := records.AddInstanceEntry(t.Context(), r, "../x", "", ""); err == nil {
		t.Error("an id that is none was taken")
	}
	for tag, want := range map[string]string{"i-k7m2p9x4tq": "k7m2p9x4tq", "i-x": "", "r-k7m2p9x4tq": "", "k7m2p9x4tq": ""} {
		must.Equal(t, tag, records.EntryInstance(tag), want)
	}
}
