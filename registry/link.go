// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// minSecret is the least number of bytes of an archive secret.
const minSecret = 32

// linkDomain is the first line of the text under a signature, so that a
// signature made for another purpose with the same secret is worth nothing.
const linkDomain = "okara-archive-v1"

// publicToken stands for the signature where anonymous may read; authToken
// where the request itself carries a token.
const (
	publicToken = "public"
	authToken   = "auth"
)

// Key signs archive links. The first configured key signs, all verify, so a
// rotation breaks no live link. Replicas need the same keys.
type Key struct {
	ID     string // empty: derived from the secret
	Secret []byte // at least 32 bytes
}

// links makes and checks the paths of archives. A link names one blob of one
// repository under one file name, for a limited time.
type links struct {
	keys   []Key
	ttl    time.Duration
	now    func() time.Time
	sealed string // the caller's credential, carried by every link; "" without pass-through
}

func newLinks(keys []Key, ttl time.Duration, now func() time.Time) (*links, error) {
	l := &links{ttl: ttl, now: now}
	if len(keys) == 0 {
		return nil, fmt.Errorf("archive keys: none given")
	}
	for i, k := range keys {
		if len(k.Secret) < minSecret {
			return nil, fmt.Errorf("archive key %d: %d bytes, at least %d are needed", i+1, len(k.Secret), minSecret)
		}
		if k.ID == "" {
			sum := sha256.Sum256(k.Secret)
			k.ID = hex.EncodeToString(sum[:4])
		}
		if strings.Trim(k.ID, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
			return nil, fmt.Errorf("archive key %d: the id %q may have lower case letters and digits only", i+1, k.ID)
		}
		l.keys = append(l.keys, k)
	}
	return l, nil
}

// blobName is what a link points at.
type blobName struct {
	Repository string
	Hex        string // SHA-256 of the blob
	File       string
}

// expiry is when a link made now ends, in Unix seconds: the lifetime rounded
// up to a quarter of it, so that answers stay byte for byte the same for that
// long.
func (l *links) expiry() int64 {
	quarter := max(int64(l.ttl/time.Second)/4, 1)
	end := l.now().Add(l.ttl).Unix()
	return (end + quarter - 1) / quarter * quarter
}

// path is the relative path of a link that ends at exp.
func (l *links) path(b blobName, exp int64) string {
	k := l.keys[0]
	token := k.ID + "." + strconv.FormatInt(exp, 10) + "." + l.mac(k, exp, b, l.sealed)
	if l.sealed != "" {
		token += "." + l.sealed
	}
	return linkPath(token, b)
}

func linkPath(token string, b blobName) string {
	return "archives/" + token + "/" + b.Repository + "/" + b.Hex + "/" + b.File
}

// mac signs a link; sealed is the credential it carries.
func (l *links) mac(k Key, exp int64, b blobName, sealed string) string {
	return k.mac(linkDomain, k.ID, strconv.FormatInt(exp, 10), b.Repository, b.Hex, b.File, sealed)
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
	return &httpError{status: http.StatusForbidden, text: "this archive link is not valid; run init again for a new one"}
}

// mac signs lines of text. The first one names the purpose.
func (k Key) mac(lines ...string) string {
	m := hmac.New(sha256.New, k.Secret)
	for _, line := range lines {
		m.Write([]byte(line + "\n"))
	}
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// verify checks the token of a link and returns when it ends. The signature is
// checked before the time, so only a link that was once good is told to be old.
func (l *links) verify(token string, b blobName) (time.Time, error) {
	signed, sealed := cutSealed(token)
	part := strings.Split(signed, ".")
	if len(part) != 3 || (sealed == "") != (l.sealed == "") {
		return time.Time{}, forged() // a link with a credential is for that credential alone
	}
	exp, err := strconv.ParseInt(part[1], 10, 64)
	if err != nil || strconv.FormatInt(exp, 10) != part[1] {
		return time.Time{}, forged()
	}
	for _, k := range l.keys {
		if k.ID != part[0] || !hmac.Equal([]byte(l.mac(k, exp, b, sealed)), []byte(part[2])) {
			continue
		}
		end := time.Unix(exp, 0)
		if !l.now().Before(end) {
			return time.Time{}, &httpError{status: http.StatusGone, text: "this archive link has expired; run init again"}
		}
		return end, nil
	}
	return time.Time{}, forged()
}
