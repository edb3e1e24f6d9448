// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl"
	"github.com/hashicorp/hcl/hcl/parser"

	"github.com/seed-141914ff/okara/oci"
)

// cliConfig is the credentials part of a CLI configuration file. Like the tools, okara reads it
// with version 1 of HCL, in its native and its JSON form.
type cliConfig struct {
	Credentials map[string]map[string]any `hcl:"credentials"`
	OCI         map[string]*ociBlock      `hcl:"oci_credentials"`
	Default     *ociDefault               `hcl:"oci_default_credentials"`
}

type ociBlock struct {
	Username     string `hcl:"username"`
	Password     string `hcl:"password"`
	AccessToken  string `hcl:"access_token"`
	RefreshToken string `hcl:"refresh_token"`
	Helper       string `hcl:"docker_credentials_helper"`
}

type ociDefault struct {
	Discover *bool     `hcl:"discover_ambient_credentials"`
	Files    *[]string `hcl:"docker_style_config_files"`
	Helper   string    `hcl:"docker_credentials_helper"`
}

// ambient is what oci_default_credentials says about sources outside of the CLI configuration.
type ambient struct {
	off   bool     // discover_ambient_credentials = false
	files []string // docker_style_config_files
	fixed bool     // files replaces the default locations
}

// parseCLIConfig returns the entries of one file, whose relative file names are below dir. As with
// Docker files, a bad block is reported and the others count.
func parseCLIConfig(b []byte, dir string) ([]entry, ambient, error) {
	var f cliConfig
	if err := decodeHCL(&f, b); err != nil {
		return nil, ambient{}, err
	}
	var entries []entry
	var errs []error
	for _, label := range slices.Sorted(maps.Keys(f.OCI)) {
		e, err := f.OCI[label].blockEntry(label)
		if err != nil {
			errs = append(errs, fmt.Errorf("oci_credentials %q: %w", label, err))
			continue
		}
		entries = append(entries, e)
	}
	for _, host := range slices.Sorted(maps.Keys(f.Credentials)) {
		token, _ := f.Credentials[host]["token"].(string)
		if token == "" || host == "" {
			continue // the scheme of another service, not of a registry
		}
		entries = append(entries, entry{raw: "credentials " + host, key: key{host: normalHost(host)}, cred: DecodeToken(token), token: token})
	}
	if f.Default == nil {
		return entries, ambient{}, errors.Join(errs...)
	}
	if f.Default.Helper != "" {
		entries = append(entries, entry{raw: "oci_default_credentials", helper: f.Default.Helper})
	}
	return entries, f.Default.ambientFiles(dir), errors.Join(errs...)
}

func (d *ociDefault) ambientFiles(dir string) ambient {
	a := ambient{off: d.Discover != nil && !*d.Discover}
	if d.Files == nil {
		return a
	}
	a.fixed = true
	for _, name := range *d.Files {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		a.files = append(a.files, name)
	}
	return a
}

func (b *ociBlock) blockEntry(label string) (entry, error) {
	k := parseKey(label)
	e := entry{raw: "oci_credentials " + label, key: k}
	basic := b.Username != "" || b.Password != ""
	tokens := b.AccessToken != "" || b.RefreshToken != ""
	switch {
	case k.host == "" || strings.Contains(label, "://"):
		return e, errors.New("the label must be HOST[:PORT][/PATH]")
	case b.Helper != "" && (basic || tokens), basic && tokens:
		return e, errors.New("set only one of username and password, access_token and refresh_token, docker_credentials_helper")
	case b.Helper != "" && k.path != "":
		return e, errors.New("docker_credentials_helper is for whole registries, but the label has a path")
	case b.Helper != "":
		e.helper = b.Helper
	case b.Username != "" && b.Password != "":
		e.cred = oci.Credential{Username: b.Username, Password: b.Password}
	case tokens:
		e.cred = oci.Credential{RegistryToken: b.AccessToken, IdentityToken: b.RefreshToken}
	default:
		return e, errors.New("needs username and password, access_token and refresh_token, or docker_credentials_helper")
	}
	return e, nil
}

// decodeHCL rewords errors to contain a position and never a part of the document, maybe a secret.
func decodeHCL(out any, b []byte) error {
	err := hcl.Decode(out, string(b))
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*parser.PosError](err); ok {
		return fmt.Errorf("not a valid CLI configuration, line %d", e.Pos.Line)
	}
	return errors.New("not a valid CLI configuration")
}

// Forms of tokens that carry a registry credential through clients that support only bearer tokens:
// TF_TOKEN_... variables and credentials blocks.
const (
	tokenBasic    = "basic."
	tokenIdentity = "identity."
)

// EncodeToken returns c as one word for DecodeToken and okara's pass-through mode.
func EncodeToken(c oci.Credential) string {
	switch {
	case c.RegistryToken != "":
		return c.RegistryToken
	case c.IdentityToken != "":
		return tokenIdentity + base64.RawURLEncoding.EncodeToString([]byte(c.IdentityToken))
	}
	return tokenBasic + base64.RawURLEncoding.EncodeToString([]byte(c.Username+":"+c.Password))
}

// DecodeToken undoes EncodeToken. Any other text is a token for the registry itself.
func DecodeToken(s string) oci.Credential {
	if rest, ok := strings.CutPrefix(s, tokenBasic); ok {
		if b, err := decodeBase64URL(rest); err == nil {
			if user, password, ok := strings.Cut(string(b), ":"); ok {
				return oci.Credential{Username: user, Password: password}
			}
		}
	}
	if rest, ok := strings.CutPrefix(s, tokenIdentity); ok {
		if b, err := decodeBase64URL(rest); err == nil {
			return oci.Credential{IdentityToken: string(b)}
		}
	}
	return oci.Credential{RegistryToken: s}
}

func decodeBase64URL(s string) ([]byte, error) {
	return base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
}
