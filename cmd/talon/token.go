package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

func newToken() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make credentials for tenants",
		Args:  noArgs,
		RunE:  which("new"),
	}
	cmd.AddCommand(newTokenNew())
	return cmd
}

// tokenID is what policy files take: no dot, it ends at the first one.
var tokenID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func newTokenNew() *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Make a token and its entry for the policy file",
		Long: "Make a token and its entry for the policy file. It prints two lines: the token, id.secret, for the client;\n" +
			"and the entry, with the secret's SHA-256, for tokens: of a tenant. The secret is stored nowhere and shown only this once.",
		Example: "  talon token new --id ci-1\n  curl -H \"Authorization: Bearer ci-1.SECRET\" http://127.0.0.1:8080/list.txt",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if id == "" {
				id = strings.ToLower(rand.Text()[:10])
			}
			if !tokenID.MatchString(id) {
				return fmt.Errorf("--id: %q: use up to 64 letters, digits, dashes and underscores", id)
			}
			secret, entry := newSecret(id)
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s.%s\n%s\n", id, secret, entry); err != nil {
				return err
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "The first line is the token: give it to the client now, it is stored nowhere and cannot be shown again.")
			fmt.Fprintln(cmd.ErrOrStderr(), "The second is its entry for the policy file, under tokens: of the tenant.")
			return nil
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "public `name` of the token, which the policy file and logs show; a random one without it")
	completeWords(cmd, "id", nil)
	return cmd
}

// newSecret makes a secret of 256 bits and the entry that lets in who knows it.
func newSecret(id string) (secret, entry string) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	secret = base64.RawURLEncoding.EncodeToString(random[:])
	sum := sha256.Sum256([]byte(secret))
	// Quoted, because YAML takes some of both for numbers.
	return secret, fmt.Sprintf(`- {id: "%s", sha256: "%s"}`, id, hex.EncodeToString(sum[:]))
}
