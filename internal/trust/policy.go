// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/ecdsa"
	"fmt"
	"os"
	"slices"

	"github.com/seed-141914ff/okara/internal/scan"
	"github.com/seed-141914ff/okara/internal/signing"
)

// PolicyFiles is a policy as users write it: on a command line or in a
// configuration file.
type PolicyFiles struct {
	OpenPGP []string // files of armored public keys to trust
	Cosign  []string // files of ECDSA public keys to trust
	Require []string // RequireOpenPGP, RequireCosign, RequireScan
	Block   string   // findings of this level and above fail; "": none
	Expired bool     // accept an expired key
}

// Read reads the keys; nil if nothing is required. A yanked version is
// accepted, because the user names the version explicitly.
func (p PolicyFiles) Read() (*Policy, error) {
	hasKeys := p.OpenPGP != nil || p.Cosign != nil
	if !hasKeys && p.Require == nil && p.Block == "" && !p.Expired {
		return nil, nil
	}
	for _, name := range p.Require {
		if !slices.Contains([]string{RequireOpenPGP, RequireCosign, RequireScan}, name) {
			return nil, fmt.Errorf("requirement %q is not openpgp, cosign or scan", name)
		}
	}
	if err := scan.CheckLevel(p.Block); err != nil {
		return nil, err
	}
	o := &Policy{Require: p.Require, Block: p.Block, AllowYanked: true, AllowExpired: p.Expired}
	var err error
	if o.OpenPGP, err = ReadPublicKeys(p.OpenPGP); err != nil {
		return nil, err
	}
	o.Cosign, err = readCosignKeys(p.Cosign)
	return o, err
}

// ReadPublicKeys reads files of armored OpenPGP public keys.
func ReadPublicKeys(files []string) ([]signing.PublicKey, error) {
	var keys []signing.PublicKey
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		some, err := signing.ParsePublicKeys(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		keys = append(keys, some...)
	}
	return keys, nil
}

func readCosignKeys(files []string) ([]*ecdsa.PublicKey, error) {
	var keys []*ecdsa.PublicKey
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		key, err := signing.ParseCosignPublicKey(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}
