// SPDX-License-Identifier: Apache-2.0

package site

import (
	"net/http"
	"time"

	"github.com/seed-141914ff/okara/internal/text"
)

// message is the result of a form, which the next page shows: once, to the caller that
// sent the form.
type message struct {
	Text    string `json:"t"`
	Bad     bool   `json:"b,omitempty"`
	For     string `json:"f"` // issuer and subject
	Expires int64  `json:"e"`
}

const (
	messageCookie  = "message"
	messagePurpose = "message of a form"
	messageAge     = time.Minute
	maxMessage     = 1 << 10 // bytes, so that browsers accept the cookie
)

// keepMessage keeps a message for the next page. Without sessions there is no key to seal
// it, and it is dropped.
func (s *site) keepMessage(r *Request, m message) {
	sessions := s.o.Kit.Guard.Sessions()
	if sessions == nil {
		return
	}
	m.Text = text.Clip(m.Text, maxMessage)
	m.For = r.callerKey()
	m.Expires = s.o.Now().Add(messageAge).Unix()
	sealed, err := sessions.Keyring.Seal(messagePurpose, m)
	if err != nil {
		s.o.Kit.Log(r.Request).Error("message of a form not encrypted", "error", err)
		return
	}
	r.SetCookie(sessions.Cookie(r.Request, messageCookie, sealed, messageAge))
}

// takeMessage returns the message that a form left, and deletes its cookie.
func (s *site) takeMessage(r *Request) *message {
	sessions := s.o.Kit.Guard.Sessions()
	if sessions == nil || r.Method != http.MethodGet {
		return nil
	}
	gone := sessions.Cookie(r.Request, messageCookie, "", -1)
	found := r.CookiesNamed(gone.Name)
	if len(found) == 0 {
		return nil
	}
	r.SetCookie(gone)
	var m message
	if len(found) > 1 || sessions.Keyring.Open(messagePurpose, found[0].Value, &m) != nil || s.o.Now().Unix() >= m.Expires || m.For != r.callerKey() {
		return nil
	}
	return &m
}

// callerKey identifies the caller of a page, as far as it is known.
func (r *Request) callerKey() string { return r.Grant.Issuer + "\x00" + r.Grant.Subject }

// SetCookie adds a cookie to the answer.
func (r *Request) SetCookie(c *http.Cookie) { r.Reply.Add("Set-Cookie", c.String()) }
