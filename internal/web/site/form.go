// SPDX-License-Identifier: Apache-2.0

package site

import (
	"crypto/rand"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-141914ff/okara/internal/service"
)

const (
	maxForm   = 256 << 10 // bytes of a form
	smallForm = 16 << 10  // of a form that needs no right
	maxFields = 500

	keyAge   = time.Hour       // maximum age of a page whose form is sent
	keySkew  = 5 * time.Minute // clock difference between the replica that made a page and the one that gets its form
	keyField = "key"
)

// Form has the fields that a browser sent. They are valid UTF-8 without NUL.
type Form struct {
	url.Values
	// Key is the same each time that one page is sent, and different for every page, so
	// that a repeated request takes effect once. Only forms of [Routes.Post] have one.
	Key string
}

// Answer is the response to a form: a redirect to a page below /ui/ with a message, or a
// page in the same response, for content that must not have an address or for errors in
// the fields.
type Answer struct {
	To   string // below /ui/, with its query
	Text string // "": no message
	Bad  bool   // the message reports a failure

	Page *Page // instead of To; browsers do not cache it
}

// Do performs the action of a form.
type Do func(*Request, *Form) (*Answer, error)

// Check decides whether the caller may send a form; it sees only the path and the query.
type Check func(*Request) error

// NoRight is the check of forms that need no right.
func NoRight(*Request) error { return nil }

// actHandler returns the handler of a form that changes something: it must come from a page of
// this server, from a caller with the right, and carry the key of that page.
func (s *site) actHandler(may Check, f Do) http.Handler {
	return s.formHandler(maxForm, may, func(r *Request, in *Form) (*Answer, error) {
		if err := in.takeKey(s.o.Now()); err != nil {
			return nil, err
		}
		return f(r, in)
	})
}

// formHandler returns the handler of a form. The origin of the form and the right to send it are
// checked before a byte of it is read.
func (s *site) formHandler(limit int, may Check, f Do) http.Handler {
	return s.wrapLimits(func(w http.ResponseWriter, hr *http.Request) error {
		if err := s.cross.Check(hr); err != nil {
			return &service.Error{Status: http.StatusForbidden, Text: "the form comes from another site"}
		}
		r := s.newRequest(w, hr)
		if err := may(r); err != nil {
			return err
		}
		in, err := s.readForm(r, limit)
		if err != nil {
			return err
		}
		a, err := f(r, in)
		if err != nil {
			return err
		}
		if a.Page != nil {
			a.Page.NoStore = true
			return s.sendPage(w, r, a.Page)
		}
		if a.Text != "" {
			s.keepMessage(r, message{Text: a.Text, Bad: a.Bad})
		}
		Secure(w.Header())
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Location", Up(r.URL.Path)+a.To)
		w.WriteHeader(http.StatusSeeOther)
		return nil
	})
}

// readForm reads the body of a form of at most limit bytes.
func (s *site) readForm(r *Request, limit int) (*Form, error) {
	kind, p, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" || p["charset"] != "" && !strings.EqualFold(p["charset"], "utf-8") {
		return nil, &service.Error{Status: http.StatusUnsupportedMediaType, Text: "must be a form: application/x-www-form-urlencoded"}
	}
	if r.ContentLength > int64(limit) {
		return nil, formTooLarge(limit)
	}
	if err := s.o.Kit.OpenBody(r.Request); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(r.Body, int64(limit)+1))
	switch {
	case err != nil:
		return nil, BadForm("the form is truncated")
	case len(b) > limit:
		return nil, formTooLarge(limit)
	}
	return parseForm(string(b))
}

func parseForm(body string) (*Form, error) {
	if strings.Count(body, "&") >= maxFields {
		return nil, BadForm("the form has more than %d fields", maxFields)
	}
	values, err := url.ParseQuery(body)
	if err != nil {
		return nil, BadForm("invalid form")
	}
	for name, all := range values {
		if !IsText(name) || slices.ContainsFunc(all, func(v string) bool { return !IsText(v) }) {
			return nil, BadForm("a field of the form is not text")
		}
	}
	return &Form{Values: values}, nil
}

// IsText reports whether s is text: valid UTF-8 without NUL.
func IsText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// BadForm returns the error for a form that no page of this server has sent: 400.
func BadForm(format string, args ...any) error {
	return &service.Error{Status: http.StatusBadRequest, Text: fmt.Sprintf(format, args...)}
}

func formTooLarge(limit int) error {
	return &service.Error{Status: http.StatusRequestEntityTooLarge, Text: fmt.Sprintf("the form is larger than %d KiB", limit>>10)}
}

// NewKey returns the key for the forms of one page: the time, and a random text. The
// template part "key" is its field.
func (c Clock) NewKey() string {
	return strconv.FormatInt(c().Unix(), 36) + "-" + rand.Text()
}

// takeKey removes the key from the fields and checks it. After keyAge the page may show
// outdated data, and its key is not remembered any more.
func (f *Form) takeKey(now time.Time) error {
	keys := f.Values[keyField]
	f.Del(keyField)
	if len(keys) != 1 {
		return BadForm("the form has no key: submit it from its page")
	}
	made, random, ok := strings.Cut(keys[0], "-")
	seconds, err := strconv.ParseInt(made, 36, 64)
	if !ok || err != nil || len(random) != len(rand.Text()) || strings.Trim(random, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
		return BadForm("the key of the form is invalid: submit it from its page")
	}
	age := now.Sub(time.Unix(seconds, 0))
	if age > keyAge || age < -keySkew {
		return &service.Error{Status: http.StatusConflict, Text: "this page is older than an hour: reload it, check its content, and submit the form again"}
	}
	f.Key = keys[0]
	return nil
}
