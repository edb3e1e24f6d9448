// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
)

const (
	// signUpload is the purpose of the signatures of upload addresses.
	signUpload = "okara-tfe-upload-v1"
	// ticketTime is how long the address of a state is good. A right that is taken away
	// outlives in it for as long.
	ticketTime = time.Hour
	// maxTicket bounds a token before it is decoded, in bytes.
	maxTicket = 16 << 10
)

// ticketKind says what a token is for. One of a kind is worth nothing elsewhere.
type ticketKind string

const (
	ticketState ticketKind = "state" // takes the bytes of a state
	ticketJSON  ticketKind = "json"  // takes the state as the tools show it, in clear, and drops it

	ticketConfiguration ticketKind = "cv"  // takes a configuration; its id is in Workspace
	ticketLog           ticketKind = "log" // gives a log; the id of the plan or apply is in Workspace
)

// ticket is what the address of an upload carries, since the request comes without
// a token of its own, and to any replica: all that was decided when it was given
// away.
type ticket struct {
	Kind      ticketKind `json:"k"`
	Workspace string     `json:"w"` // its id, with the handle of the command if there is one
	Lock      string     `json:"i"` // the id of the lock under which to write
	Serial    uint64     `json:"s"` // this and the next two: of the state that was announced
	Lineage   string     `json:"l"`
	MD5       string     `json:"m"` // in hex
	Force     bool       `json:"f,omitempty"`
	Tool      string     `json:"t,omitempty"`

	// Who was allowed to write it.
	Mode    string `json:"a"`
	Issuer  string `json:"b,omitempty"`
	Subject string `json:"c"`

	Expires int64 `json:"e"` // Unix time
}

// caller is who was allowed to write the state.
func (t ticket) caller() access.Caller {
	return access.Caller{Mode: t.Mode, Issuer: t.Issuer, Subject: t.Subject}
}

// tickets makes and reads the tokens of uploads: "<kid>.<payload>.<mac>".
type tickets struct {
	keys *access.Keyring
	now  func() time.Time
}

// issue returns the token of a ticket that is good from now on, for a time.
func (k tickets) issue(t ticket, life time.Duration) (string, error) {
	t.Expires = k.now().Add(life).Unix()
	b, err := json.Marshal(t)
	if err != nil {
		return "", err
	}
	payload := base64.RawURLEncoding.EncodeToString(b)
	id, mac := k.keys.Sign(signUpload, payload)
	return id + "." + payload + "." + mac, nil
}

// errTicket says that nobody here made a token.
func errTicket() error {
	return refuse(http.StatusForbidden, "forbidden", "this upload address is not valid; run the command again for a new one")
}

// redeem reads a token. The signature is checked before the time, so that only a
// token that was once good is told to be old.
func (k tickets) redeem(token string) (ticket, error) {
	part := strings.Split(token, ".")
	if len(token) > maxTicket || len(part) != 3 || !k.keys.Verify(signUpload, part[0], part[2], part[1]) {
		return ticket{}, errTicket()
	}
	b, ok := parseText(part[1])
	var t ticket
	if !ok || json.Unmarshal([]byte(b), &t) != nil {
		return ticket{}, errTicket()
	}
	if k.now().Unix() >= t.Expires {
		return ticket{}, refuse(http.StatusGone, "gone", "this upload address has expired; run the command again for a new one")
	}
	return t, nil
}
