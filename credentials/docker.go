// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/docker/cli/cli/config/types"

	"github.com/seed-141914ff/okara/oci"
)

// dockerFile has the credentials of a Docker configuration file or a containers auth.json. Entries
// are kept raw, so that a broken one does not hide the others.
type dockerFile struct {
	Auths       map[string]json.RawMessage `json:"auths"`
	CredHelpers map[string]string          `json:"credHelpers"`
	CredsStore  string                     `json:"credsStore"`
}

// parseDocker returns the entries of a file: helpers, then static ones. With legacy the whole
// document is the auths object, as in ~/.dockercfg. The error lists the entries that were skipped.
func parseDocker(b []byte, legacy bool) (helpers, static []entry, err error) {
	var f dockerFile
	if legacy {
		err = decodeFirst(b, &f.Auths)
	} else {
		err = decodeFirst(b, &f)
	}
	if err != nil {
		return nil, nil, jsonError(err)
	}
	var errs []error
	for _, k := range sortedKeys(f.Auths) {
		c, err := parseAuth(f.Auths[k])
		switch {
		case parseKey(k).host == "":
			errs = append(errs, fmt.Errorf("entry %q does not name a registry", k))
		case err != nil:
			errs = append(errs, fmt.Errorf("entry %q: %w", k, err))
		case c != (oci.Credential{}):
			static = append(static, entry{raw: k, key: parseKey(k), cred: c})
		}
	}
	for _, k := range sortedKeys(f.CredHelpers) {
		if name := f.CredHelpers[k]; name != "" && parseKey(k).host != "" {
			helpers = append(helpers, entry{raw: k, key: parseKey(k), helper: name})
		}
	}
	if f.CredsStore != "" {
		helpers = append(helpers, entry{raw: "credsStore", helper: f.CredsStore})
	}
	return helpers, static, errors.Join(errs...)
}

// parseAuth decodes one entry of auths; zero for an empty one, left where a helper has the secret.
func parseAuth(raw json.RawMessage) (oci.Credential, error) {
	var a types.AuthConfig
	if err := json.Unmarshal(raw, &a); err != nil {
		return oci.Credential{}, jsonError(err)
	}
	if a.Auth != "" {
		b, err := base64.StdEncoding.DecodeString(a.Auth)
		if err != nil {
			return oci.Credential{}, fmt.Errorf("auth: %w", err)
		}
		user, password, ok := strings.Cut(string(b), ":")
		if !ok || user == "" {
			return oci.Credential{}, errors.New("auth is not the base64 form of USER:PASSWORD")
		}
		a.Username = user
		a.Password = strings.Trim(password, "\x00")
	}
	c := oci.Credential{
		Username: a.Username, Password: a.Password,
		IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken,
	}
	return c, nil // a user name alone has an empty password, as in Docker
}

// decodeFirst decodes the first JSON value of a file, if any, and ignores the rest, as Docker does.
func decodeFirst(b []byte, into any) error {
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(into); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// sortedKeys returns the keys in normal form first: after "https://ghcr.io", "ghcr.io" counts.
func sortedKeys[V any](m map[string]V) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		if x, y := parseKey(a).String() == a, parseKey(b).String() == b; x != y {
			if x {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
}

// jsonError rewords a decoding error without any value of the document, which may be a secret.
func jsonError(err error) error {
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("not valid JSON at byte %d", e.Offset)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("not valid JSON: unexpected end")
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
		return fmt.Errorf("field %s has the wrong type, at byte %d", e.Field, e.Offset)
	}
	return errors.New("not a JSON document of the expected form")
}
