// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/seed-141914ff/okara/instances/api"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/service"
)

// ask is what makes a change one request, however often it is sent.
type ask struct {
	key    string // of the ledger; "": it is not meant to be sent again
	digest string // of query and body
}

// readBody reads the body of a change into to, and what the request is known by.
// No body at all is an empty object.
func readBody(r *http.Request, c caller, to any) (ask, error) {
	key := r.Header.Get(api.IdempotencyKey)
	if err := checkKey(key); err != nil {
		return ask{}, err
	}
	body, err := readJSON(r, to)
	if err != nil {
		return ask{}, err
	}
	a := ask{digest: hash(r.URL.RawQuery, string(body))}
	if key != "" {
		a.key = hash(c.key, r.Method, r.URL.Path, key)
	}
	return a, nil
}

// hash is the SHA-256 in hex of parts, none of which runs into the next.
func hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// maxKey bounds an Idempotency-Key.
const maxKey = 128

// checkKey refuses what is no Idempotency-Key; "" is none.
func checkKey(key string) error {
	if len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return &service.Error{Status: http.StatusBadRequest, Text: fmt.Sprintf("%s: want up to %d visible characters", api.IdempotencyKey, maxKey)}
	}
	return nil
}

// readJSON reads a body of at most 64 KiB that is JSON and says so.
func readJSON(r *http.Request, to any) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); r.ContentLength != 0 && (err != nil || mediaType != "application/json") {
		return nil, &service.Error{Status: http.StatusUnsupportedMediaType, Text: "the body has to be application/json, and say so"}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, api.MaxBody+1))
	switch {
	case err != nil:
		return nil, &service.Error{Status: http.StatusBadRequest, Text: fmt.Sprintf("the request broke off after %d bytes", len(body))}
	case len(body) > api.MaxBody:
		return nil, errTooLarge()
	case len(bytes.TrimSpace(body)) == 0:
		return nil, nil
	}
	return body, decode(body, to)
}

// decode reads one JSON object, whose members are all known.
func decode(body []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(to)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return field("/"+strings.ReplaceAll(wrong.Field, ".", "/"), "a %s does not fit here", wrong.Value)
	}
	if _, name, ok := strings.Cut(fmt.Sprint(err), "unknown field "); ok {
		return field("/"+strings.Trim(name, `"`), "there is no such member")
	}
	if err != nil {
		return fmt.Errorf("%w: the body is not the JSON that is expected here: %s", template.ErrInvalid, strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: more than one JSON value", template.ErrInvalid)
	}
	return nil
}
