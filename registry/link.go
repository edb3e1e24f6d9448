// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/internal/service"
)

// signLink is the purpose of the signatures of links.
const signLink = "okara-archive-v1"

// publicToken stands for the signature where anonymous may read; authToken
// where the request itself carries a token.
const (
	publicToken = "public"
	authToken   = "auth"
)

// links makes and checks the paths of archives. A link names one blob of one
// repository under one file name, for a limited time.
type links struct {
	keys   *access.Keyring
	ttl    time.Duration
	now    func() time.Time
	sealed string // the caller's credential, carried by every link; "" without pass-through

	public, publicHost string // URL that people reach the server by, with a slash at its end, and its host; "": nobody said
}

func (o Options) newLinks(ttl time.Duration) *links {
	l := &links{keys: o.Keys, ttl: ttl, now: o.Now}
	if u, err := url.Parse(o.PublicURL); err == nil && u.Host != "" {
		l.public, l.publicHost = strings.TrimSuffix(o.PublicURL, "/")+"/", u.Host
	}
	return l
}

// blobName is what a link points at.
type blobName struct {
	Repository string
	Hex        string // SHA-256 of the blob
	File       string
}

// place is where the blob cache has it.
func (b blobName) place() cache.Blob { return cache.Blob{Repository: b.Repository, Hex: b.Hex} }

// expiry is when a link made now ends, in Unix seconds: the lifetime rounded
// up to a quarter of it, so that answers stay byte for byte the same for that
// long. Other keys move it by a second, so that no answer is kept whose links an
// old key made.
func (l *links) expiry() int64 {
	quarter := max(int64(l.ttl/time.Second)/4, 1)
	end := l.now().Add(l.ttl).Unix()
	return (end+quarter-1)/quarter*quarter + l.keys.Set()%quarter
}

// path is the relative path of a link that ends at exp.
func (l *links) path(b blobName, exp int64) string {
	id, signature := l.keys.Sign(signLink, signedLines(exp, b, l.sealed)...)
	token := id + "." + strconv.FormatInt(exp, 10) + "." + signature
	if l.sealed != "" {
		token += "." + l.sealed
	}
	return linkPath(token, b)
}

func linkPath(token string, b blobName) string {
	return "archives/" + token + "/" + b.Repository + "/" + b.Hex + "/" + b.File
}

// signedLines is what the signature of a link is over; sealed is the credential
// that it carries.
func signedLines(exp int64, b blobName, sealed string) []string {
	return []string{strconv.FormatInt(exp, 10), b.Repository, b.Hex, b.File, sealed}
}

// cutSealed splits the token of a link behind its signature.
func cutSealed(token string) (signed, sealed string) {
	end := 0
	for range 3 {
		i := strings.IndexByte(token[end:], '.')
		if i < 0 {
			return token, ""
		}
		end += i + 1
	}
	return token[:end-1], token[end:]
}

func forged() error {
	return &service.Error{Status: http.StatusForbidden, Text: "this archive link is not valid; run init again for a new one"}
}

// verify checks the token of a link and returns when it ends. The signature is
// checked before the time, so only a link that was once good is told to be old.
func (l *links) verify(token string, b blobName) (time.Time, error) {
	signed, sealed := cutSealed(token)
	part := strings.Split(signed, ".")
	if len(part) != 3 {
		return time.Time{}, forged()
	}
	exp, err := strconv.ParseInt(part[1], 10, 64)
	if err != nil || strconv.FormatInt(exp, 10) != part[1] {
		return time.Time{}, forged()
	}
	if !l.keys.Verify(signLink, part[0], part[2], signedLines(exp, b, sealed)...) {
		return time.Time{}, forged()
	}
	end := time.Unix(exp, 0)
	if !l.now().Before(end) {
		return time.Time{}, &service.Error{Status: http.StatusGone, Text: "this archive link has expired; run init again"}
	}
	return end, nil
}
