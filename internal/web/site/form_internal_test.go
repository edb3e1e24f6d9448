// SPDX-License-Identifier: Apache-2.0

package site

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/statictoken"
)

const adminToken = "oks_admin_aaaaaaaaaaaaaaaaaaaaaaaa"

// forms is a server with one form, which records what it got.
type forms struct {
	*site
	now  time.Time
	done []*Form
}

func newForms(t testing.TB) *forms {
	t.Helper()
	keys := must.Get(keyring.New([]keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}}))(t)
	guard := must.Get(access.New(access.Options{
		Keyring: keys, Sessions: &access.Sessions{Keyring: keys},
		Policy: access.Policy{Tokens: []statictoken.Token{
			{ID: "admin", Hash: sha256.Sum256([]byte(adminToken)), Scopes: []rights.Scope{{Action: rights.Admin, Kind: rights.AnyKind, Glob: rights.Everything}}},
			{ID: "none", Hash: sha256.Sum256([]byte("oks_none_aaaaaaaaaaaaaaaaaaaaaaaa"))},
		}},
	}))(t)
	templates := must.Get(ReadTemplates(nil))(t)
	f := &forms{now: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}
	f.site = &site{
		o:         Options{Kit: service.New(service.Options{Guard: guard}), Now: func() time.Time { return f.now }},
		templates: templates, cross: http.NewCrossOriginProtection(),
	}
	return f
}

func (f *forms) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.actHandler(Holds(Administer), func(r *Request, in *Form) (*Answer, error) {
		f.done = append(f.done, in)
		return &Answer{To: "me?a=b", Text: "Done: " + in.Get("name")}, nil
	}).ServeHTTP(w, r)
}

// unread fails the test if it is read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read before it was known who sends it")
	return 0, fmt.Errorf("read")
}

// TestForm sends requests that browsers do not send.
//
// Shows: pages 7 | forms: from another site, without a key, too large; messages; links that fill a
// form in
func TestForm(t *testing.T) {
	f := newForms(t)
	key := Clock(f.site.o.Now).NewKey()
	old := strings.Replace(key, key[:strings.Index(key, "-")], fmt.Sprint("t", "0"), 1)
	const kind = "application/x-www-form-urlencoded"
	for _, c := range []struct {
		name, body, kind, token, site string
		status                        int
	}{
		{"good", "name=x&key=" + key, kind, adminToken, "same-origin", 303},
		{"good, with a charset", "name=x&key=" + key, kind + "; charset=UTF-8", adminToken, "same-origin", 303},
		{"no browser", "key=" + key, kind, adminToken, "", 303},
		{"most fields", "key=" + key + strings.Repeat("&a=b", maxFields-1), kind, adminToken, "", 303},
		{"largest", "key=" + key + "&a=" + strings.Repeat("b", maxForm-len(key)-7), kind, adminToken, "", 303},
		{"another site", "key=" + key, kind, adminToken, "cross-site", 403},
		{"a neighbour", "key=" + key, kind, adminToken, "same-site", 403},
		{"nobody", "key=" + key, kind, "", "same-origin", 303},
		{"a wrong token", "key=" + key, kind, adminToken + "x", "same-origin", 401},
		{"no right", "key=" + key, kind, "oks_none_aaaaaaaaaaaaaaaaaaaaaaaa", "same-origin", 403},
		{"no type", "key=" + key, "", adminToken, "", 415},
		{"text, which needs no preflight", "key=" + key, "text/plain", adminToken, "", 415},
		{"JSON", "{}", "application/json", adminToken, "", 415},
		{"with files", "key=" + key, "multipart/form-data; boundary=x", adminToken, "", 415},
		{"another charset", "key=" + key, kind + "; charset=utf-7", adminToken, "", 415},
		{"two types", "key=" + key, kind + ", text/plain", adminToken, "", 415},
		{"too many fields", "key=" + key + strings.Repeat("&a=b", maxFields), kind, adminToken, "", 400},
		{"many empty fields", "key=" + key + strings.Repeat("&", maxFields), kind, adminToken, "", 400},
		{"too large", "key=" + key + "&a=" + strings.Repeat("b", maxForm), kind, adminToken, "", 413},
		{"a bad escape", "a=%zz&key=" + key, kind, adminToken, "", 400},
		{"semicolons", "a=b;key=" + key, kind, adminToken, "", 400},
		{"not UTF-8", "a=%ff&key=" + key, kind, adminToken, "", 400},
		{"a name that is not", "%ff=a&key=" + key, kind, adminToken, "", 400},
		{"NUL", "a=%00&key=" + key, kind, adminToken, "", 400},
		{"no key", "name=x", kind, adminToken, "", 400},
		{"an empty key", "key=", kind, adminToken, "", 400},
		{"two keys", "key=" + key + "&key=" + key, kind, adminToken, "", 400},
		{"a key of no page", "key=" + key[:len(key)-1], kind, adminToken, "", 400},
		{"a key with a line feed", "key=" + key[:len(key)-1] + "%0a", kind, adminToken, "", 400},
		{"a key without a time", "key=" + key[strings.Index(key, "-"):], kind, adminToken, "", 400},
		{"a time beyond all", "key=zzzzzzzzzzzzzzzzzz" + key, kind, adminToken, "", 400},
		{"a key of long ago", "key=" + old, kind, adminToken, "", 409},
		{"a key of the last of all times", "key=1y2p0ij32e8e7" + key[strings.Index(key, "-"):], kind, adminToken, "", 409},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.done = nil
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://okara.example.com/ui/things/one", strings.NewReader(c.body))
			if c.token == "" || c.status == http.StatusUnauthorized || c.status == http.StatusForbidden {
				r = httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://okara.example.com/ui/things/one", unread{t})
			}
			if c.name == "too large" {
				r.ContentLength = -1 // without a declared length the limit is the same
			}
			for name, value := range map[string]string{"Content-Type": c.kind, "Sec-Fetch-Site": c.site} {
				if value != "" {
					r.Header.Set(name, value)
				}
			}
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			}
			w := httptest.NewRecorder()
			f.ServeHTTP(w, r)
			if w.Code != c.status || len(f.done) > 0 != (c.status == http.StatusSeeOther && c.token != "") {
				t.Fatalf("status %d, done %d times\n%s", w.Code, len(f.done), w.Body)
			}
			if len(f.done) == 0 {
				if got := w.Header().Get("Location"); got != "" && got != "./../login?return=%2Fui%2F" {
					t.Errorf("it leads to %q", got)
				}
				return
			}
			if got := w.Header().Get("Location"); got != "./../me?a=b" || f.done[0].Key != key || f.done[0].Has(keyField) {
				t.Errorf("it leads to %q, with the key %q", got, f.done[0].Key)
			}
		})
	}
}

// TestFormKey checks how long the key of a page is valid.
//
// Shows: pages 7
func TestFormKey(t *testing.T) {
	f := newForms(t)
	made := f.now
	key := Clock(f.site.o.Now).NewKey()
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{0, 0}, {keyAge, 0}, {keyAge + time.Second, 409}, {-keySkew, 0}, {-keySkew - time.Second, 409}} {
		in := must.Get(parseForm("key=" + key))(t)
		status, _, _ := service.Own(in.takeKey(made.Add(c.after)))
		if status != c.want {
			t.Errorf("after %v: %d, want %d", c.after, status, c.want)
		}
	}
	if Clock(f.site.o.Now).NewKey() == key {
		t.Error("two pages have one key")
	}
}

// TestMessage shows the message of a form once, to the caller that sent it, for a minute.
//
// Shows: pages 7
func TestMessage(t *testing.T) {
	for _, c := range []struct {
		name  string
		token string
		after time.Duration
		twice bool
		cut   bool
		want  bool
	}{
		{"at once", adminToken, 0, false, false, true},
		{"to somebody else", "oks_none_aaaaaaaaaaaaaaaaaaaaaaaa", 0, false, false, false},
		{"a minute later", adminToken, messageAge, false, false, false},
		{"two cookies", adminToken, 0, true, false, false},
		{"a cut cookie", adminToken, 0, false, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newForms(t)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://okara.example.com/ui/x", strings.NewReader("name=<b>&key="+Clock(f.site.o.Now).NewKey()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Authorization", "Bearer "+adminToken)
			w := httptest.NewRecorder()
			f.ServeHTTP(w, r)
			cookies := w.Result().Cookies()
			if len(cookies) != 1 || !cookies[0].HttpOnly || !cookies[0].Secure || cookies[0].Name != "__Host-okara-message" {
				t.Fatalf("%v", cookies)
			}
			cookie := cookies[0]
			if c.cut {
				cookie.Value = cookie.Value[:len(cookie.Value)-1]
			}
			f.now = f.now.Add(c.after)
			r = httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://okara.example.com/ui/me", nil)
			r.Header.Set("Authorization", "Bearer "+c.token)
			r.AddCookie(cookie)
			if c.twice {
				r.AddCookie(cookie)
			}
			w = httptest.NewRecorder()
			f.pageHandler(NoRight, func(*Request) (*Page, error) { return &Page{Template: "error.html", Body: errorBody{}}, nil }).ServeHTTP(w, r)
			if shown := strings.Contains(w.Body.String(), "Done: &lt;b&gt;"); shown != c.want {
				t.Errorf("shown: %v\n%s", shown, w.Body)
			}
			if gone := w.Result().Cookies(); len(gone) != 1 || gone[0].MaxAge != -1 {
				t.Errorf("the cookie stays: %v", gone)
			}
			if kept := w.Header().Get("Etag"); c.want && kept != "" {
				t.Errorf("a browser may keep the page with its message: %s", kept)
			}
		})
	}
}

// FuzzForm reads arbitrary bodies: accepted fields are text, within the bounds.
func FuzzForm(f *testing.F) {
	for _, body := range []string{"", "a=b", "a=b&a=c", "a=%00", "%zz", "a;b", "=", "&&&", "key=1-A", "key=t0-AAAAAAAAAAAAAAAAAAAAAAAAAA"} {
		f.Add(body)
	}
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, body string) {
		in, err := parseForm(body)
		if err != nil {
			return
		}
		fields := 0
		for name, all := range in.Values {
			fields += len(all)
			if !IsText(name) {
				t.Errorf("the name %q", name)
			}
		}
		if fields > maxFields {
			t.Errorf("%d fields", fields)
		}
		if err := in.takeKey(now); err == nil && (len(in.Key) > 64 || strings.ContainsAny(in.Key, " \r\n")) {
			t.Errorf("the key %q", in.Key)
		}
	})
}

// TestPolicyOfNoPage allows no other host in the policy of answers that are not pages.
func TestPolicyOfNoPage(t *testing.T) {
	w := httptest.NewRecorder()
	Secure(w.Header())
	if got := w.Header().Get("Content-Security-Policy"); !strings.Contains(got, "img-src 'self';") {
		t.Errorf("what is no page has %q", got)
	}
}

// TestBack checks that a form or a login may lead only to a page of this server.
//
// Shows: page-mistakes 10 | an open redirect after login | several
func TestBack(t *testing.T) {
	for _, c := range []struct{ path, want string }{
		{"/ui/", ""},
		{"/ui/modules/net", "modules/net"},
		{"/ui/modules/net/", "modules/net/"},
		{"/ui/search?q=a%2Fb&page=2", "search?q=a%2Fb&page=2"},
		{"/ui/modules/a%2Fb/c", "modules/a%2Fb/c"},
		{"/ui/x?u=https://evil.example.com//", "x?u=https://evil.example.com//"},
		{"/ui/a:b", "a:b"},
		{"/ui/x#token", "x"},
		{"", ""}, {"/", ""}, {"ui/x", ""}, {"/uix", ""}, {"/v2/", ""}, {"me", ""},
		{"//evil.example.com/ui/x", ""},
		{"///evil.example.com/ui/x", ""},
		{"/\\evil.example.com/ui/", ""},
		{"\\\\evil.example.com/ui/", ""},
		{"https://evil.example.com/ui/x", ""},
		{"https:/ui/x", ""},
		{"javascript:alert(1)//ui/", ""},
		{"/ui//evil.example.com", ""},
		{"/ui/../v2/", ""},
		{"/ui/..", ""},
		{"/ui/x/../../../v2/", ""},
		{"/ui/%2e%2e/v2/", ""},
		{"/ui/.%2E/v2/", ""},
		{"/ui/%2e/x", ""},
		{"/ui/%5cevil", ""},
		{"/ui/\\evil", ""},
		{"/ui/x\r\nSet-Cookie: a=b", ""},
		{"/ui/\tx", ""},
		{"/ui/%0d%0aSet-Cookie:a=b", ""},
		{"/ui/%00", ""},
		{"/ui/\u0085", ""},
		{"/ui/\xff", ""},
		{"/ui/%zz", ""},
		{" /ui/x", ""},
		{"/ui/" + strings.Repeat("a", maxReturn), ""},
	} {
		must.Equal(t, c.path+": leads to", Back(c.path), c.want)
	}
}
