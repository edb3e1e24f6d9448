// SPDX-License-Identifier: Apache-2.0

package s3facade_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/s3facade"
)

const accessKey = "RUNKEY"

// run is one facade and its client, which stands for one run of a tool.
type run struct {
	t      *testing.T
	url    string
	facade *s3facade.Facade
	repo   string
	wait   time.Duration
	done   chan struct{}
	failed []error
	loaded []string
}

func newRun(t *testing.T, host string) *run {
	t.Helper()
	r := &run{t: t, repo: host + "/infra/state"}
	r.start(host, nil)
	return r
}

func (r *run) start(host string, transport http.RoundTripper) {
	r.facade = s3facade.New(s3facade.Options{
		AccessKey: accessKey, Repositories: []string{r.repo}, TempDir: r.t.TempDir(), LockNote: func() string { return "pid 7 on ci" }, MaxState: 1 << 20,
		LockWait: r.wait, Done: r.done,
		Loaded: func(agent string, state []byte) { r.loaded = append(r.loaded, agent+" "+string(state)) },
		Failed: func(err error) { r.failed = append(r.failed, err) },
		Open: func(_ context.Context, p s3facade.Ref) (*statebackend.Store, error) {
			repo, err := oci.OpenRepo(p.Repository, oci.Options{Transport: transport, PlainHTTP: true, Retry: oci.Retry{MaxAttempts: 1}})
			if err != nil {
				return nil, err
			}
			return statebackend.New(repo, statebackend.Options{}), nil
		},
	})
	server := httptest.NewServer(r.facade)
	r.t.Cleanup(server.Close)
	r.url = server.URL
}

// answer is a response with its body read.
type answer struct {
	status int
	header http.Header
	body   string
}

func (r *run) do(method, path, body string, header ...string) answer {
	r.t.Helper()
	req := must.Get(http.NewRequestWithContext(r.t.Context(), method, r.url+"/okara"+path, strings.NewReader(body)))(r.t)
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+accessKey+"/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp := must.Get(http.DefaultClient.Do(req))(r.t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(r.t)
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// must sends a request and checks the status.
func (r *run) must(status int, method, path, body string, header ...string) answer {
	r.t.Helper()
	a := r.do(method, path, body, header...)
	if a.status != status {
		r.t.Fatalf("%s %s: got %d %s, want %d", method, path, a.status, a.body, status)
	}
	return a
}

func (r *run) key() string { return "/" + r.repo + "/state" }

func (r *run) keyOf(workspace string) string { return "/env:/" + workspace + r.key() }

func lockBody(id string) string {
	return fmt.Sprintf(`{"ID":%q,"Operation":"OperationTypeApply","Who":"me@host","Version":"1.12.6","Created":"2026-01-02T03:04:05Z"}`, id)
}

func (a answer) code(t *testing.T) string {
	t.Helper()
	var e struct{ Code string }
	if err := xml.Unmarshal([]byte(a.body), &e); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	return e.Code
}

func (a answer) lockID(t *testing.T) string {
	t.Helper()
	var i statebackend.LockInfo
	if err := json.Unmarshal([]byte(a.body), &i); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	return i.ID
}

func TestApply(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		r := newRun(t, host)
		r.must(404, "HEAD", r.key(), "")
		must.Equal(t, "value", r.must(404, "GET", r.key(), "").code(t), "NoSuchKey")
		r.must(200, "PUT", r.key()+".tflock", lockBody("one"), "If-None-Match", "*")
		r.must(200, "PUT", r.key()+".tflock", lockBody("one"), "If-None-Match", "*")
		r.must(200, "PUT", r.key(), `{"serial":1}`, "User-Agent", "APN/1.0 OpenTofu-S3-Backend/1.0 OpenTofu/1.12.6 aws-sdk-go-v2/1.41.1")
		r.must(200, "HEAD", r.key(), "", "User-Agent", "Terraform/1.11.4")
		must.Match(t, "loaded", r.loaded, []string{`Terraform/1.11.4 {"serial":1}`})
		must.Equal(t, "value", r.must(200, "GET", r.key(), "").body, `{"serial":1}`)
		a := r.must(200, "GET", r.key()+".tflock", "")
		if a.lockID(t) != "one" || !strings.Contains(a.body, "pid 7 on ci") {
			t.Errorf("got %s", a.body)
		}
		if held := r.facade.Held(); len(held) != 1 || held[0].Info.ID != "one" {
			t.Errorf("held %+v", held)
		}
		r.must(204, "DELETE", r.key()+".tflock", "")
		if held := r.facade.Held(); len(held) != 0 {
			t.Errorf("held after unlock: %+v", held)
		}
		r.must(404, "GET", r.key()+".tflock", "")
		r.must(204, "DELETE", r.key()+".tflock", "")
		repo := must.Get(oci.OpenRepo(r.repo, oci.Options{PlainHTTP: true}))(t)
		_, v, err := statebackend.New(repo, statebackend.Options{}).Get(t.Context(), "default")
		must.Succeed(t, err)
		must.Equal(t, "tool", v.Tool, "OpenTofu/1.12.6")
		if len(r.failed) != 0 {
			t.Errorf("failures %v", r.failed)
		}
	})
}

func TestContention(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		a, b := newRun(t, host), newRun(t, host)
		a.must(200, "PUT", a.key()+".tflock", lockBody("a"), "If-None-Match", "*")
		refused := b.must(412, "PUT", b.key()+".tflock", lockBody("b"), "If-None-Match", "*")
		must.Equal(t, "value", refused.code(t), "PreconditionFailed")
		told := b.facade.Refused()
		for _, want := range []string{"me@host", "pid 7 on ci", "okara state unlock"} {
			if len(told) != 1 || !strings.Contains(states.Remedy(told[0]), want) {
				t.Errorf("no message with %q: %v", want, told)
			}
		}
		must.Equal(t, "holder", b.must(200, "GET", b.key()+".tflock", "").lockID(t), "a")
		// A second tool within the same run is refused as well.
		a.must(412, "PUT", a.key()+".tflock", lockBody("a2"), "If-None-Match", "*")
		must.Equal(t, "holder", a.must(200, "GET", a.key()+".tflock", "").lockID(t), "a")
		// Another workspace has another lock.
		b.must(200, "PUT", b.keyOf("dev")+".tflock", lockBody("c"), "If-None-Match", "*")
		// A write without a lock does not pass another client's lock.
		b.must(412, "PUT", b.key(), `{"serial":9}`)
		a.must(200, "PUT", a.key(), `{"serial":1}`)
		a.must(204, "DELETE", a.key()+".tflock", "")
		b.must(200, "PUT", b.key()+".tflock", lockBody("b"), "If-None-Match", "*")
		if told := b.facade.Refused(); len(told) > 0 {
			t.Errorf("got every lock, and was refused: %v", told)
		}
	})
}

func TestLockWait(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	a := newRun(t, host)
	a.must(200, "PUT", a.key()+".tflock", lockBody("a"), "If-None-Match", "*")
	b := &run{t: t, repo: a.repo, wait: time.Minute, done: make(chan struct{})}
	b.start(host, nil)
	got := make(chan int, 2)
	try := func() { got <- b.do("PUT", b.key()+".tflock", lockBody("b"), "If-None-Match", "*").status }
	go try()
	a.must(204, "DELETE", a.key()+".tflock", "")
	must.Equal(t, "waiting ended with", <-got, 200)
	b.must(204, "DELETE", b.key()+".tflock", "")

	// An interrupted run does not wait.
	a.must(200, "PUT", a.key()+".tflock", lockBody("a2"), "If-None-Match", "*")
	go try()
	close(b.done)
	must.Equal(t, "interrupted waiting ended with", <-got, 412)
}

func TestForceUnlock(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		a, b := newRun(t, host), newRun(t, host)
		a.must(200, "PUT", a.key()+".tflock", lockBody("a"), "If-None-Match", "*")
		if id := b.must(200, "GET", b.key()+".tflock", "").lockID(t); id != "a" {
			t.Fatalf("holder is %s", id)
		}
		b.must(204, "DELETE", b.key()+".tflock", "")
		b.must(200, "PUT", b.key()+".tflock", lockBody("b"), "If-None-Match", "*")
		b.must(200, "PUT", b.key(), `{"serial":1}`)
		late := a.must(409, "PUT", a.key(), `{"serial":2}`)
		if len(a.failed) != 1 || !strings.Contains(a.failed[0].Error(), "saved as version") {
			t.Errorf("failures %v, want one that names the version", a.failed)
		}
		if !strings.Contains(late.body, "okara prints the reason") {
			t.Errorf("the tool is not told whom to ask: %s", late.body)
		}
		must.Equal(t, "value", b.must(200, "GET", b.key(), "").body, `{"serial":1}`)
	})
}

// A lock whose release failed is still this run's.
func TestUnlockFails(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	r := &run{t: t, repo: host + "/infra/state"}
	var broken atomic.Bool
	r.start(host, &ocitest.Fault{
		Match: func(*http.Request) bool { return broken.Load() }, Times: 1000, Do: ocitest.Status(http.StatusForbidden, 0),
	})
	r.must(200, "PUT", r.key()+".tflock", lockBody("one"), "If-None-Match", "*")
	broken.Store(true)
	r.must(403, "DELETE", r.key()+".tflock", "")
	if held := r.facade.Held(); len(held) != 1 || len(r.failed) != 1 {
		t.Errorf("held %+v, failed %v", held, r.failed)
	}
	broken.Store(false)
	r.must(204, "DELETE", r.key()+".tflock", "")
	r.must(404, "GET", r.key()+".tflock", "")
}

// What an apply used is recorded after it: a lock that then stays is this run's, and the record is written.
func TestRecordUnlockFails(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	r := &run{t: t, repo: host + "/infra/state"}
	var broken atomic.Bool
	r.start(host, &ocitest.Fault{
		Match: func(q *http.Request) bool {
			return broken.Load() && (q.Method == http.MethodDelete || strings.Contains(q.URL.Path, "/unlocked-"))
		},
		Times: 1000, Do: ocitest.Status(http.StatusForbidden, 0),
	})
	r.must(200, "PUT", r.key(), `{"serial":1}`)
	r.must(200, "PUT", r.key()+".tflock", lockBody("one"), "If-None-Match", "*")
	r.must(200, "GET", r.key(), "")
	r.must(204, "DELETE", r.key()+".tflock", "")
	errs := r.facade.RecordApplied(t.Context(), func([]byte) []byte {
		broken.Store(true)
		return []byte(`{}`)
	})
	if held := r.facade.Held(); len(held) != 1 || len(errs) > 0 || len(r.failed) != 1 || !strings.Contains(r.failed[0].Error(), "releasing the lock") {
		t.Errorf("held %+v, not recorded %v, failed %v", held, errs, r.failed)
	}
	repo := must.Get(oci.OpenRepo(r.repo, oci.Options{PlainHTTP: true}))(t)
	must.Equal(t, "version", must.Get(statebackend.New(repo, statebackend.Options{}).Current(t.Context(), "default"))(t).N, int64(2))
}

func TestWithoutLock(t *testing.T) {
	r := newRun(t, ocitest.New(t, ocitest.Quirks{}))
	r.must(200, "PUT", r.key(), `{"serial":1}`)
	if held := r.facade.Held(); len(held) != 0 {
		t.Errorf("held %+v", held)
	}
	r.must(404, "GET", r.key()+".tflock", "")
	must.Equal(t, "value", r.must(200, "GET", r.key(), "").body, `{"serial":1}`)
}

func TestWorkspaces(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		r := newRun(t, host)
		if got := r.list("?list-type=2&prefix=env%3A%2F"); len(got) != 0 {
			t.Errorf("an empty registry lists %v", got)
		}
		long := strings.Repeat("l", 200)
		names := []string{"dev", "prod", "prod-v2", "ws-abc", long}
		for i, ws := range names {
			r.must(200, "PUT", r.keyOf(ws), fmt.Sprintf(`{"serial":%d}`, i+1))
		}
		r.must(200, "PUT", r.key(), `{"serial":99}`)
		var want []string
		for _, ws := range names {
			want = append(want, r.keyOf(ws)[1:])
		}
		slices.Sort(want)
		must.Match(t, "list differs", r.list("?list-type=2&prefix=env%3A%2F"), want)
		r.must(204, "DELETE", r.keyOf("prod"), "")
		r.must(404, "HEAD", r.keyOf("prod"), "")
		if got := r.list("?list-type=2&prefix=env%3A%2F&max-keys=2"); len(got) != 4 {
			t.Errorf("got %v", got)
		}
		for i, ws := range names {
			if ws == "prod" {
				continue
			}
			if got := r.must(200, "GET", r.keyOf(ws), "").body; got != fmt.Sprintf(`{"serial":%d}`, i+1) {
				t.Errorf("workspace %s has %s", ws, got)
			}
		}
	})
}

// list follows continuation tokens.
func (r *run) list(query string) []string {
	r.t.Helper()
	var keys []string
	token := ""
	for {
		var res struct {
			IsTruncated           bool
			NextContinuationToken string
			Contents              []struct{ Key string }
		}
		a := r.must(200, "GET", query+token, "")
		must.Succeed(r.t, xml.Unmarshal([]byte(a.body), &res))
		for _, c := range res.Contents {
			keys = append(keys, c.Key)
		}
		if !res.IsTruncated {
			return keys
		}
		token = "&continuation-token=" + strings.ReplaceAll(res.NextContinuationToken, "/", "%2F")
	}
}

func TestRemoteKeys(t *testing.T) {
	r := newRun(t, ocitest.New(t, ocitest.Quirks{}))
	r.must(200, "PUT", r.key(), `{"serial":1}`)
	r.must(200, "PUT", r.keyOf("dev"), `{"serial":2}`)
	prefix := "remote%3A%2F" + strings.ReplaceAll(r.repo, "/", "%2F") + "%2F"
	want := []string{"remote:/" + r.repo + "/dev/" + r.repo + "/remote"}
	must.Match(t, "list differs", r.list("?list-type=2&prefix="+prefix), want)
	must.Equal(t, "value", r.must(200, "GET", "/"+r.repo+"/remote", "").body, `{"serial":1}`)
	must.Equal(t, "value", r.must(200, "GET", "/"+want[0], "").body, `{"serial":2}`)
	must.Equal(t, "value", r.must(403, "PUT", "/"+want[0], `{"serial":3}`).code(t), "AllAccessDisabled")
}

func TestRanges(t *testing.T) {
	r := newRun(t, ocitest.New(t, ocitest.Quirks{}))
	state := `{"serial":1,"lineage":"` + strings.Repeat("x", 1000) + `"}`
	r.must(200, "PUT", r.key(), state)
	r.must(200, "HEAD", r.key(), "")
	var got bytes.Buffer
	for from := 0; from < len(state); from += 400 {
		a := r.must(206, "GET", r.key(), "", "Range", fmt.Sprintf("bytes=%d-%d", from, from+399))
		got.WriteString(a.body)
	}
	if got.String() != state {
		t.Error("the ranges do not make the state")
	}
	// A write between two ranges must not mix two versions.
	r.must(206, "GET", r.key(), "", "Range", "bytes=0-399")
	r.must(200, "PUT", r.key(), strings.Replace(state, "1", "2", 1))
	r.must(412, "GET", r.key(), "", "Range", "bytes=400-799")
}

func TestRefusals(t *testing.T) {
	r := newRun(t, ocitest.New(t, ocitest.Quirks{}))
	for _, tt := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		code                     string
	}{
		{"no key", "GET", r.key(), "", []string{"Authorization", ""}, 403, "InvalidAccessKeyId"},
		{"other key", "GET", r.key(), "", []string{"Authorization", "AWS4-HMAC-SHA256 Credential=OTHER/x"}, 403, "InvalidAccessKeyId"},
		{"no key while listing", "GET", "?list-type=2&prefix=env:/", "", []string{"Authorization", ""}, 403, "InvalidAccessKeyId"},
		{"other bucket", "GET", "x/y", "", nil, 404, "NoSuchBucket"},
		{"other key form", "GET", "/some/object", "", nil, 404, "NoSuchKey"},
		{"method", "POST", r.key(), "", nil, 405, "MethodNotAllowed"},
		{"lock without id", "PUT", r.key() + ".tflock", "{}", nil, 400, "InvalidRequest"},
		{"lock too large", "PUT", r.key() + ".tflock", strings.Repeat("x", 65<<10), nil, 400, "EntityTooLarge"},
		{"state too large", "PUT", r.key(), strings.Repeat("x", 1<<20+1), nil, 400, "EntityTooLarge"},
		{"content hash", "PUT", r.key(), "{}", []string{"X-Amz-Content-Sha256", strings.Repeat("0", 64)}, 400, "XAmzContentSHA256Mismatch"},
		{"MD5", "PUT", r.key(), "{}", []string{"Content-MD5", "AAAA"}, 400, "BadDigest"},
		{"checksum", "PUT", r.key(), "{}", []string{"X-Amz-Checksum-Crc32", "AAAA"}, 400, "BadDigest"},
		{"unknown upload", "PUT", r.key() + "?uploadId=x&partNumber=1", "{}", nil, 404, "NoSuchUpload"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := *r
			r.t = t
			if code := r.must(tt.status, tt.method, tt.path, tt.body, tt.header...).code(t); code != tt.code {
				t.Errorf("got code %s, want %s", code, tt.code)
			}
		})
	}
	r.must(404, "HEAD", r.key(), "")
}

// A registry's refusal is passed on, never as AccessDenied, which tools ignore.
func TestRegistryErrors(t *testing.T) {
	for _, tt := range []struct {
		name   string
		do     ocitest.Act
		status int
		code   string
	}{
		{"denied", ocitest.Status(http.StatusForbidden, 0), 403, "AllAccessDisabled"},
		{"rate limit", ocitest.Status(http.StatusTooManyRequests, 0), 503, "SlowDown"},
		{"down", ocitest.Status(http.StatusBadGateway, 0), 503, "ServiceUnavailable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := ocitest.New(t, ocitest.Quirks{})
			r := &run{t: t, repo: host + "/infra/state"}
			r.start(host, &ocitest.Fault{Times: 100, Do: tt.do})
			if code := r.must(tt.status, "GET", "?list-type=2&prefix=env:/", "").code(t); code != tt.code {
				t.Errorf("got %s, want %s", code, tt.code)
			}
			if len(r.failed) == 0 {
				t.Error("the run was not told")
			}
		})
	}
}
