// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/supply"
)

// checkAuth fails if a secret named in an auth block is missing. It makes no requests.
func checkAuth(getenv func(string) string, auth supply.Auth) error {
	var err error
	if auth.AppID != 0 {
		_, err = appKey(auth)
	} else {
		_, err = readSecret(getenv, auth.TokenEnv, auth.File)
	}
	return err
}

func appKey(auth supply.Auth) (*rsa.PrivateKey, error) {
	text, err := readSecret(nil, "", auth.KeyFile)
	if err != nil {
		return nil, err
	}
	key, err := parseRSAKey([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", auth.KeyFile, err)
	}
	return key, nil
}

// parseRSAKey reads a private key as issued by GitHub, PKCS #1 or #8 in PEM.
func parseRSAKey(text []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("not a PEM file")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(*rsa.PrivateKey)
	if err != nil || !ok {
		return nil, errors.New("not an RSA private key")
	}
	return key, nil
}

// maxSecret bounds a token or a key, in bytes; tokens of CI systems have about 2 KiB.
const maxSecret = 32 << 10

// readSecret reads a variable if one is named, else a file that only its owner may read.
func readSecret(getenv func(string) string, variable, file string) (string, error) {
	if variable != "" {
		s := strings.TrimSpace(getenv(variable))
		if s == "" {
			return "", fmt.Errorf("the variable %s is empty", variable)
		}
		return s, nil
	}
	b, err := files.ReadPrivate(file, maxSecret)
	return strings.TrimSpace(string(b)), err
}
