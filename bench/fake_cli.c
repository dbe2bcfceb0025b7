/* A CLI of a millisecond, to measure what OLP itself costs.
 *
 * As `claude -p` it reads a prompt and answers it; as `codex app-server` it answers one turn after
 * another. `--deltas N` makes the answer N pieces long. It checks nothing: it is only quick.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int deltas = 1;

static void claude(void) {
    char buffer[65536];
    while (fread(buffer, 1, sizeof buffer, stdin) > 0) {}
    puts("{\"type\":\"system\",\"subtype\":\"init\",\"tools\":[],\"mcp_servers\":[]}");
    puts("{\"type\":\"stream_event\",\"event\":{\"type\":\"message_start\",\"message\":"
         "{\"model\":\"claude-sonnet-fake\",\"usage\":{\"input_tokens\":1}}}}");
    for (int i = 0; i < deltas; i++)
        printf("{\"type\":\"stream_event\",\"event\":{\"type\":\"content_block_delta\",\"index\":0,"
               "\"delta\":{\"type\":\"text_delta\",\"text\":\"word%d \"}}}\n", i);
    puts("{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"num_turns\":1,"
         "\"result\":\"\",\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}");
}

static void turn(long id) {
    printf("{\"id\":%ld,\"result\":{\"turn\":{\"id\":\"U\"}}}\n", id);
    puts("{\"method\":\"item/started\",\"params\":{\"threadId\":\"T\","
         "\"item\":{\"type\":\"agentMessage\",\"id\":\"i\"}}}");
    for (int i = 0; i < deltas; i++)
        printf("{\"method\":\"item/agentMessage/delta\",\"params\":{\"threadId\":\"T\","
               "\"itemId\":\"i\",\"delta\":\"word%d \"}}\n", i);
    puts("{\"method\":\"turn/completed\",\"params\":{\"threadId\":\"T\","
         "\"turn\":{\"id\":\"U\",\"status\":\"completed\"}}}");
}

static void codex(void) {
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        char *at = strstr(line, "\"id\":");
        if (at == NULL) continue;
        long id = strtol(at + 5, NULL, 10);
        if (strstr(line, "\"turn/start\""))
            turn(id);
        else if (strstr(line, "\"thread/start\""))
            printf("{\"id\":%ld,\"result\":{\"thread\":{\"id\":\"T\"}}}\n", id);
        else
            printf("{\"id\":%ld,\"result\":{}}\n", id);
        fflush(stdout);
    }
}

int main(int count, char **arguments) {
    int server = 0;
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "app-server") == 0) server = 1;
        if (strcmp(arguments[i], "--deltas") == 0 && i + 1 < count) deltas = atoi(arguments[i + 1]);
    }
    if (server) codex(); else claude();
    return 0;
}
