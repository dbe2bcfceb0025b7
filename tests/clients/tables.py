"""The tools that each client brings, in the notation of ``schemas``.

Names and parameters are those the clients are known for; descriptions are ours. ``MCP`` stands for
what a user has plugged in beside a client's own.
"""

CLINE = """
execute_command command:s requires_approval:b timeout?:i | Runs a command on the user's machine.
read_file path:s task_progress?:s | Reads a file and gives its text with line numbers.
write_to_file path:s content:s task_progress?:s | Writes a whole file.
replace_in_file path:s diff:s | Replaces blocks of a file.
search_files path:s regex:s file_pattern?:s | Searches with a regular expression.
list_files path:s recursive?:b | Lists a folder.
list_code_definition_names path:s | Lists the names defined at the top of the files.
browser_action action:e(launch,click,type,scroll_down,close) url?:s coordinate?:s text?:s | Drives.
web_fetch url:s prompt:s | Fetches a page.
use_mcp_tool server_name:s tool_name:s arguments:s | Calls a tool of a server.
access_mcp_resource server_name:s uri:s | Reads a resource of a server.
ask_followup_question question:s options?:s* | Asks the user.
attempt_completion result:s command?:s | Shows the result.
new_task context:s | Starts anew.
plan_mode_respond response:s needs_more_exploration?:b | Answers in plan mode.
load_mcp_documentation | Loads the documentation.
"""

CONTINUE = """
read_file filepath:s | Use this tool if you need to view the contents of an existing file.
read_file_range filepath:s startLine:i endLine:i | Reads lines.
create_new_file filepath:s contents:s | Creates a file that does not exist.
edit_existing_file filepath:s changes:s | Edits a file.
single_find_and_replace filepath:s old_string:s new_string:s replace_all?:b | Replaces text.
run_terminal_command command:s waitForCompletion?:b | Runs a command.
file_glob_search pattern:s | Finds files.
grep_search query:s | Searches text.
ls dirPath:s recursive?:b | Lists a folder.
view_diff | Shows the changes of the working copy.
read_currently_open_file | Reads what is open.
fetch_url_content url:s | Fetches a page.
create_rule_block name:s rule:s globs?:s alwaysApply?:b | Keeps a rule.
"""

ZED = """
copy_path source_path:s destination_path:s | Copies a file or folder.
create_directory path:s | Creates a folder.
delete_path path:s | Deletes.
diagnostics path?:s | Tells errors and warnings.
edit_file display_description:s path:s mode:e(edit,create,overwrite) | Edits a file.
fetch url:s | Fetches a page as Markdown.
find_path glob:s offset?:i | Finds paths.
grep regex:s include_pattern?:s offset?:i case_sensitive?:b | Searches the project.
list_directory path:s | Lists a folder.
move_path source_path:s destination_path:s | Moves.
now timezone:e(utc,local) | Tells the time.
open path_or_url:s | Opens with the user's program.
read_file path:s start_line?:i end_line?:i | Reads a file.
terminal command:s cd:s timeout_ms?:i | Runs a command.
thinking content:s | Thinks.
update_plan plan:t* scope?:e(file,project) | Keeps the plan.
web_search query:s | Searches the web.
"""

OPENCODE = """
bash command:s timeout?:i workdir?:s description:s | Runs a command in a shell.
edit filePath:s oldString:s newString:s replaceAll?:b | Replaces text in a file.
glob pattern:s path?:s | Finds files.
grep pattern:s path?:s include?:s | Searches text.
list path?:s ignore?:s* | Lists a folder.
read filePath:s offset?:i limit?:i | Reads a file.
write filePath:s content:s | Writes a file.
task description:s prompt:s subagent_type:s session_id?:s | Starts an agent.
todowrite todos:t* | Keeps the list.
todoread | Reads the list.
webfetch url:s format:e(text,markdown,html) timeout?:n | Fetches a page.
skill name:s | Loads a skill.
invalid tool:s error:s | Do not use.
"""

CURSOR = """
codebase_search query:s target_directories:s* explanation:s | Searches by meaning.
grep pattern:s path?:s glob?:s output_mode?:e(content,files_with_matches,count) | Searches text.
read_file target_file:s offset?:i limit?:i | Reads a file.
list_dir target_directory:s ignore_globs?:s* | Lists a folder.
glob_file_search glob_pattern:s target_directory?:s | Finds files.
search_replace file_path:s old_string:s new_string:s replace_all?:b | Replaces text.
write file_path:s contents:s | Writes a file.
delete_file target_file:s explanation?:s | Deletes a file.
run_terminal_cmd command:s is_background:b explanation?:s | Runs a command.
read_lints paths?:s* | Tells the linter's errors.
todo_write merge:b todos:t* | Keeps the list.
web_search search_term:s explanation?:s | Searches the web.
update_memory title?:s knowledge_to_store?:s action?:e(create,update,delete) | Remembers.
edit_notebook target_notebook:s cell_idx:i is_new_cell:b new_string:s | Edits a cell.
fetch_rules rule_names:s* | Fetches rules.
list_mcp_resources server?:s
"""

OPEN_WEBUI = """
search_web query:s count?:i | Searches the web.
fetch_url url:s | Fetches a page.
get_current_timestamp | Tells the time.
calculate_timestamp days_ago?:i weeks_ago?:i | Calculates a time.
query_knowledge_files query:s knowledge_ids?:s* count?:i | Searches the user's files.
list_knowledge_bases count?:i skip?:i | Lists the user's collections.
search_memories query:s count?:i | Searches what was kept.
add_memory content:s | Keeps a sentence.
search_chats query:s | Searches earlier chats.
view_chat chat_id:s | Shows a chat.
generate_image prompt:s size?:e(square,wide) | Makes an image.
get_current_weather city:s unit?:e(celsius,fahrenheit) | Tells the weather.
tool_list_tasks_get limit?:i | An OpenAPI server's.
tool_create_tasks_post tasks:t* labels?:m | An OpenAPI server's.
"""

LANGCHAIN = """
search query:s max_results?:i topic?:e(general,news) | Searches the web.
lookup_policy query:s | Consults the rules of the house.
fetch_user_flight_information passenger_id:s | Fetches tickets.
search_flights departure_airport?:s arrival_airport?:s limit?:i | Finds flights.
update_ticket ticket_no:s new_flight_id:i | Changes a ticket.
cancel_ticket ticket_no:s | Cancels a ticket.
book_hotel hotel_id:i checkin_date?:s | Books a hotel.
sql_db_query query:s | Runs a query.
sql_db_schema table_names:s | Tells the schema.
sql_db_list_tables tool_input?:s | Lists the tables.
write_todos todos:t* | Keeps the list.
python_repl code:s timeout?:n | Runs code.
transfer_to_agent agent?:e(flights,hotels) reason:s | Hands over.
"""

SDK_LOOP = """
get_weather location:s units?:e(c,f) | Tells the weather.
read_file path:s encoding?:s | Reads a file.
write_file path:s content:s append?:b | Writes a file.
query table_name:s columns:s* order_by?:e(asc,desc) limit?:i | Queries the database.
plan tasks:t* | Keeps the plan.
send_email to:s* subject:s body:s | Sends a mail.
run_python code:s | Runs code.
search query:s top_k?:i | Searches the documents.
"""

HOME_ASSISTANT = """
HassTurnOn name?:s area?:s floor?:s domain?:s* device_class?:s* | Turns on a device or entity.
HassTurnOff name?:s area?:s floor?:s domain?:s* device_class?:s* | Turns off a device or entity.
HassLightSet name?:s area?:s floor?:s domain?:s* color?:s brightness?:i temperature?:i | Lights.
HassClimateSetTemperature temperature:n area?:s name?:s floor?:s | Sets the temperature.
HassSetPosition name?:s area?:s position:i | Sets a position.
HassMediaPause name?:s area?:s | Pauses.
HassMediaNext name?:s area?:s | Goes on to the next.
HassSetVolume name?:s area?:s volume_level:i | Sets the volume.
HassListAddItem item:s name:s | Adds to a list.
HassVacuumStart name?:s area?:s | Starts a vacuum.
HassBroadcast message:s | Says it in every room.
HassCancelAllTimers area?:s
GetLiveContext | Tells the present state of devices and sensors.
GetDateTime | Tells the date and time.
"""

MCP = """
mcp_github_create_issue owner:s repo:s title:s body?:s labels?:s* milestone?:i | Opens an issue.
mcp_github_search_code q:s sort?:e(indexed,best) page?:i perPage?:i | Searches code.
mcp_postgres_query sql:s | Runs a read-only query.
mcp_fetch_fetch url:s max_length?:i raw?:b headers?:m | Fetches.
mcp_memory_read_graph
mcp_time_convert_time source_timezone:s time:s target_timezone:s | Converts a time.
mcp_any_call method:s params?:x
"""
